// SPDX-License-Identifier: Apache-2.0
// JSON objects on one line: escapes, shortest numbers that read back the same, and what JSON has no word for.
#include "framework/io/json_lines.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/support/catch.h"

using namespace tapeformer::io;

TEST_CASE("fields of every kind in their order") {
  CHECK(JsonLine{}.text() == "{}");
  CHECK(JsonLine{}.field("step", 3).field("train/loss", 0.5).text() == R"({"step":3,"train/loss":0.5})");
  const std::string word = "w";
  CHECK(JsonLine{}.field("a", true).field("b", "x").field("c", word).field("d", std::string_view("v")).text() ==
        R"({"a":true,"b":"x","c":"w","d":"v"})");
  CHECK(JsonLine{}.field("big", ~uint64_t{0}).field("low", std::numeric_limits<int64_t>::min()).text() ==
        R"({"big":18446744073709551615,"low":-9223372036854775808})");
  CHECK(JsonLine{}.raw("list", "[1,2]").field("byte", uint8_t{65}).text() == R"({"list":[1,2],"byte":65})");
}

TEST_CASE("NaN and infinity are null") {
  CHECK(JsonLine{}.field("a", NAN).field("b", INFINITY).field("c", -INFINITY).text() == R"({"a":null,"b":null,"c":null})");
}

TEST_CASE("numbers read back as the same bits") {
  std::mt19937_64 random(3);
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t bits = random();
    double value, back = 0;
    std::memcpy(&value, &bits, 8);
    if (!std::isfinite(value)) continue;
    const std::string text = json_number(value);
    std::from_chars(text.data(), text.data() + text.size(), back);
    if (back != value) FAIL(text);
  }
  CHECK(json_number(0.1) == "0.1");
  CHECK(json_number(1e22) == "1e+22");
  CHECK(json_number(-0.0) == "-0");
}

TEST_CASE("text is escaped, and never breaks the line or the encoding") {
  CHECK(json_text("a\"b\\c/d") == R"("a\"b\\c/d")");
  CHECK(json_text("l\n\r\t") == R"("l\n\r\t")");
  CHECK(json_text(std::string("\0\x1b\x7f", 3)) == R"("\u0000\u001b\u007f")");
  CHECK(json_text("caf\xc3\xa9 \xf0\x9f\x98\x80") == "\"caf\xc3\xa9 \xf0\x9f\x98\x80\"");
  CHECK(json_text("a\xff\xc3") == "\"a\xef\xbf\xbd\xef\xbf\xbd\"");
}
