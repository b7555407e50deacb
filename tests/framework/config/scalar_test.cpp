// SPDX-License-Identifier: Apache-2.0
// The one reading of numbers and truth values, as tables; the same tables through YAML and through the command line.
#include "framework/config/scalar.h"

#include <clocale>
#include <cmath>
#include <limits>

#include "framework/config/print.h"
#include "tests/framework/config/sample.h"
#include "tests/support/catch.h"

using namespace tapeformer::config;
using namespace tapeformer::config::sample;

namespace {

struct Spelling {
  const char* text;
  double value;  // NaN: refused
  const char* hint;
};
const double refused = std::nan("");
const Spelling numbers[] = {
    {"1e-4", 1e-4, ""},
    {".5", 0.5, ""},
    {"5E-4", 5e-4, ""},
    {".5e-3", .5e-3, ""},
    {"1.e-3", 1e-3, ""},
    {"7", 7, ""},
    {"0", 0, ""},
    {"+2", 2, ""},
    {"1e+2", 100, ""},
    {"0.1", 0.1, ""},
    {"1.", 1, ""},
    {"1.7976931348623157e308", std::numeric_limits<double>::max(), ""},
    {"5e-324", 5e-324, ""},
    {"1e-4x", refused, ""},
    {"1,5", refused, "write 1.5"},
    {"1_000", refused, "write 1000"},
    {"010", refused, "write 10"},
    {"0010.5", refused, "write 10.5"},
    {"0x10", refused, "numbers are decimal here"},
    {"0o7", refused, "numbers are decimal here"},
    {".inf", refused, ""},
    {"inf", refused, ""},
    {".nan", refused, ""},
    {"nan", refused, ""},
    {"1e999", refused, "it does not fit a double"},
    {"1e", refused, ""},
    {".", refused, ""},
    {"-", refused, ""},
    {"e5", refused, ""},
    {"1 2", refused, ""},
    {"1.2.3", refused, ""},
    {"--1", refused, ""},
    {"1e5.5", refused, ""},
    {"0x1p3", refused, "numbers are decimal here"},
};

void check_numbers() {
  for (const Spelling& s : numbers) {
    INFO(s.text);
    double direct = 0;
    const Outcome outcome = read_number(s.text, direct);
    const bool good = !std::isnan(s.value);
    REQUIRE(static_cast<bool>(outcome) == good);
    CHECK(outcome.hint == s.hint);
    double from_yaml = -1, from_override = -1;
    const auto read_one = [&](const std::string& text, const std::vector<std::string>& overrides, double& value) {
      return error_of([&] {
        Document document = Document::from_text(text, "c.yaml", overrides);
        document.root().field("x", value, any_number(), "A number.");
        document.finish();
      });
    };
    const std::string yaml_report = read_one(std::string("x: ") + s.text + "\n", {}, from_yaml);
    const std::string line_report = read_one("x: 3\n", {std::string("x=") + s.text}, from_override);
    CHECK(yaml_report.empty() == good);
    CHECK(line_report.empty() == good);
    if (good) CHECK(direct == s.value);
    if (good) CHECK(from_yaml == s.value);
    if (good) CHECK(from_override == s.value);
    if (!good) CHECK(contains(yaml_report, "c.yaml:1:"));
    if (!good) CHECK(contains(line_report, "command line: 'x="));
  }
}

}  // namespace

TEST_CASE("numbers have one reading in YAML and on the command line", "[quick]") { check_numbers(); }

TEST_CASE("a locale with a decimal comma changes nothing", "[quick]") {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  const char* found = nullptr;
  for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8", "de_DE"})
    if (found == nullptr) found = std::setlocale(LC_ALL, name);
  if (found == nullptr) WARN("no locale with a decimal comma is installed; checked in the present one");
  check_numbers();
  CHECK(yaml_text(0.5) == "0.5");
  CHECK(yaml_text(int64_t{1234567}) == "1234567");
  std::setlocale(LC_ALL, before.c_str());
}

TEST_CASE("integers are decimal and know their limits", "[quick]") {
  int64_t i = 0;
  for (const auto& [text, value] : std::initializer_list<std::pair<const char*, int64_t>>{
           {"0", 0}, {"-1", -1}, {"+5", 5}, {"9223372036854775807", INT64_MAX}, {"-9223372036854775808", INT64_MIN}}) {
    INFO(text);
    REQUIRE(read_number(text, i));
    CHECK(i == value);
  }
  for (const char* text : {"9223372036854775808", "-9223372036854775809", "99999999999999999999999"}) {
    INFO(text);
    CHECK(read_number(text, i).kind == Outcome::Kind::out_of_range);
  }
  for (const char* text : {"", "010", "0x10", "1_000", "1,5", "4.0", "1e3", "a", "-", "+", "1-", "~", "true", " 1"}) {
    INFO(text);
    CHECK(read_number(text, i).kind == Outcome::Kind::malformed);
  }
  CHECK(read_number("1e3", i).hint == "write 1000");
  CHECK(read_number("4.0", i).hint == "write 4");
  CHECK(read_number("4.5", i).hint.empty());
  uint64_t u = 0;
  REQUIRE(read_number("18446744073709551615", u));
  CHECK(u == UINT64_MAX);
  CHECK(read_number("18446744073709551616", u).kind == Outcome::Kind::out_of_range);
  CHECK(read_number("-1", u).kind == Outcome::Kind::out_of_range);
}

TEST_CASE("counts take k and M", "[quick]") {
  int64_t n = 0;
  for (const auto& [text, value] : std::initializer_list<std::pair<const char*, int64_t>>{{"500", 500},
                                                                                          {"50k", 50'000},
                                                                                          {"2.5M", 2'500'000},
                                                                                          {"2.3k", 2300},
                                                                                          {"0k", 0},
                                                                                          {".5k", 500},
                                                                                          {"1.k", 1000},
                                                                                          {"0.001k", 1},
                                                                                          {"-2k", -2000}}) {
    INFO(text);
    REQUIRE(read_count(text, n));
    CHECK(n == value);
  }
  for (const char* text : {"", "k", "50K", "2m", "1.0005k", "1e3k", "5kk", "5 k", "1,5k", "0x5k", "5G"}) {
    INFO(text);
    CHECK_FALSE(read_count(text, n));
  }
  CHECK(read_count("9223372036854775807k", n).kind == Outcome::Kind::out_of_range);
}

TEST_CASE("truth is true or false", "[quick]") {
  bool b = false;
  REQUIRE(read_bool("true", b));
  CHECK(b);
  REQUIRE(read_bool("false", b));
  CHECK_FALSE(b);
  for (const char* text : {"yes", "on", "y", "True", "TRUE", "1", "Yes"}) {
    INFO(text);
    CHECK(read_bool(text, b).hint == "write true");
  }
  for (const char* text : {"no", "off", "n", "False", "FALSE", "0", "NO"}) {
    INFO(text);
    CHECK(read_bool(text, b).hint == "write false");
  }
  for (const char* text : {"", "~", "null", "maybe"}) CHECK_FALSE(read_bool(text, b));
}

TEST_CASE("printed values read back", "[quick]") {
  for (const double x : {0.1, 1e-5, 5e-324, 1.7976931348623157e308, 1.0 / 3, 0.0, -2.5, 123456789.0, 1e21}) {
    double back = 0;
    REQUIRE(read_number(yaml_text(x), back));
    CHECK(back == x);
  }
  CHECK(yaml_text(1e-5) == "1.0e-05");
  for (const char* plain : {"mean", "a b", "runs/x.yaml", "20ep", "naïve", "rgb-8"}) CHECK(yaml_text(plain) == plain);
  for (const char* quoted : {"",     "no",         "NO",    "on", "null", "~",  "1.0", "1e5",     "0x10",        "a: b", "a #b", " a",
                             "a ",   "[",          "*x",    "&x", "!x",   "%x", "@x",  "- a",     "a,b",         "'",    "\"",   "\\",
                             "a\nb", "2026-11-29", "12:30", "-",  "?",    "<<", "=",   "\x1b[0m", "caf\xc2\x85", "true", ".inf"}) {
    INFO(quoted);
    const std::string text = yaml_text(quoted);
    CHECK(text.front() == '"');
    std::string back = "?";
    Document document = Document::from_text("x: " + text + "\n", "c.yaml", {});
    document.root().field("x", back, "Text.");
    document.finish();
    CHECK(back == quoted);
  }
}
