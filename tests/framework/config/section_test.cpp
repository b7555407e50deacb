// SPDX-License-Identifier: Apache-2.0
// Each type of key: what it takes, what it refuses and how it says so.
#include "framework/config/section.h"

#include <fmt/format.h>

#include "tests/framework/config/sample.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::config;
using namespace tapeformer::config::sample;

TEST_CASE("the report looks like a compiler's", "[quick]") {
  const std::string report = report_of(
      "model:\n"
      "  drpout: 0.1\n"
      "  attention: {heads: 2}\n"
      "optim:\n"
      "  learning_rate: fast   # c\n"
      "train:\n"
      "  rows: 1\n"
      "  rows: 2\n");
  CHECK(report ==
        "c.yaml:2:3: error: unknown key 'drpout' in 'model'\n"
        "    2 |   drpout: 0.1\n"
        "      |   ^~~~~~\n"
        "  did you mean 'dropout'?  (known here: dim, dropout, tied, note, pooling, attention)\n"
        "c.yaml:5:18: error: 'optim.learning_rate' must be a number > 0, found \"fast\"\n"
        "    5 |   learning_rate: fast   # c\n"
        "      |                  ^~~~\n"
        "c.yaml:8:3: error: duplicate key 'rows' (first at line 7)\n"
        "    8 |   rows: 2\n"
        "      |   ^~~~\n"
        "3 errors; nothing was started.");
}

TEST_CASE("columns and carets count characters, long lines are cut", "[quick]") {
  const std::string report = report_of("model: {note: \"äöü\", dmi: 3}\n");
  CHECK(contains(
      report,
      "c.yaml:1:22: error: unknown key 'dmi' in 'model'\n    1 | model: {note: \"äöü\", dmi: 3}\n      |                      ^~~\n"));
  const std::string far = report_of("model: {note: \"" + std::string(5000, 'x') + "\", dmi: 3}\n");
  CHECK(contains(far, "c.yaml:1:5019: error"));
  CHECK(contains(far, "x\", dmi: 3}\n"));
  CHECK(far.size() < 1000);
}

TEST_CASE("values arrive, defaults stay", "[quick]") {
  const Settings s = read_text(
      "model:\n  dim: 128\n  dropout: .25\n  tied: true\n  note: no\n  pooling: first\n  attention: {type: [local, full], heads: 8}\n"
      "optim: {learning_rate: 1e-4, betas: [0, .5], halvings: [3, 5], warmup: 2.5k}\n"
      "train:\n  seed: 18446744073709551615\n  rows: -7\n  threads: 3\n  classes: [yes, no, NO, on, null, ~, 1.0, 'q']\n"
      "  weights: {no: 1, 1.0: 2.5, \"a b\": 3e-1}\n");
  CHECK(s.dim == 128);
  CHECK(s.dropout == 0.25);
  CHECK(s.tied);
  CHECK(s.note == "no");
  CHECK(s.pooling == Pooling::first);
  CHECK(s.attention == std::vector<size_t>{1, 0});
  CHECK(s.heads == 8);
  CHECK(s.learning_rate == 1e-4);
  CHECK(s.betas == std::vector<double>{0, 0.5});
  CHECK(s.halvings == std::vector<int>{3, 5});
  CHECK(s.warmup == 2500);
  CHECK(s.seed == UINT64_MAX);
  CHECK(s.rows == -7);
  CHECK(s.threads == 3);
  CHECK(s.classes == std::vector<std::string>{"yes", "no", "NO", "on", "null", "~", "1.0", "q"});
  CHECK(s.weights == std::vector<std::pair<std::string, double>>{{"no", 1}, {"1.0", 2.5}, {"a b", 0.3}});
  CHECK(read_text("model:\noptim: {}\n") == Settings{});
  CHECK(read_text("model: {attention: {type: linear}}\n").attention == std::vector<size_t>{2});
  CHECK(read_text("model: {pooling: \"max\"}\n").pooling == Pooling::max);
  CHECK(read_text("optim: {halvings: 7}\n").halvings == std::vector<int>{7});
  CHECK(read_text("train: {threads: auto, classes: one}\n").classes == std::vector<std::string>{"one"});
}

namespace {

struct Refusal {
  const char* key;
  const char* value;
  const char* message;
};
const Refusal refusals[] = {
    {"model.dim", "0", "must be an integer >= 1, found 0"},
    {"model.dim", "2147483648", "must be an integer >= 1, found 2147483648\n* the range is between 1 and 2147483647"},
    {"model.dim", "4294967296", "the range is between 1 and 2147483647"},
    {"model.dim", "9223372036854775808", "the range is between 1 and 2147483647"},
    {"model.dim", "-1", "must be an integer >= 1, found -1"},
    {"model.dim", "1.5", "must be an integer >= 1, found 1.5"},
    {"model.dim", "1e3", "* write 1000"},
    {"model.dim", "010", "* write 10"},
    {"model.dim", "0x10", "* numbers are decimal here"},
    {"model.dim", "'64'", "found the text \"64\"\n* drop the quotes"},
    {"model.dim", "wide", "found \"wide\""},
    {"model.dim", "", "found nothing\n* give it a value"},
    {"model.dim", "~", "found \"~\""},
    {"model.dim", "null", "found \"null\""},
    {"model.dim", "true", "found true"},
    {"model.dim", "[64]", "found a list"},
    {"model.dim", "{a: 64}", "found a map"},
    {"model.dropout", "1", "must be a number >= 0 and < 1, found 1"},
    {"model.dropout", "-0.1", "must be a number >= 0 and < 1, found -0.1"},
    {"model.dropout", ".nan", "found \".nan\""},
    {"model.dropout", "0,1", "found 0,1\n* write 0.1"},
    {"model.tied", "no", "must be true or false, found \"no\"\n* write false"},
    {"model.tied", "True", "* write true"},
    {"model.tied", "1", "* write true"},
    {"model.tied", "'true'", "* drop the quotes"},
    {"model.tied", "[true]", "found a list"},
    {"model.note", "[a]", "must be text, found a list"},
    {"model.note", "", "* write \"\" for an empty text"},
    {"model.pooling", "maen", "must be one of mean, max, first, found \"maen\"\n* did you mean 'mean'?"},
    {"model.pooling", "Mean", "* did you mean 'mean'?"},
    {"model.pooling", "sum", "must be one of mean, max, first, found \"sum\""},
    {"model.pooling", "[mean]", "found a list"},
    {"model.attention", "full", "'model.attention' must be a section with keys of its own, found \"full\""},
    {"model.attention", "~", "must be a section"},
    {"model.attention.type", "[full, locale]", "found \"locale\"\n* did you mean 'local'?"},
    {"model.attention.type", "[]", "* name at least one"},
    {"model.attention.type", "[full, [local]]", "found a list"},
    {"model.attention.type", "{full: 1}", "found a map"},
    {"model.attention.heads", "257", "must be an integer between 1 and 256, found 257"},
    {"optim.learning_rate", "0", "must be a number > 0, found 0"},
    {"optim.learning_rate", "1e-4x", "found 1e-4x"},
    {"optim.learning_rate", "'1e-4'", "* drop the quotes"},
    {"optim.learning_rate", "1e999", "* it does not fit a double"},
    {"optim.betas", "0.9", "must be a list, each a number >= 0 and < 1, found 0.9\n* write [a, b]"},
    {"optim.betas", "[0.9, 1]", "'optim.betas[1]' must be a number >= 0 and < 1, found 1"},
    {"optim.betas", "[,0.9]", "'optim.betas[0]' must be a number >= 0 and < 1, found nothing"},
    {"optim.betas", "[0.9, [0.5]]", "found a list"},
    {"optim.halvings", "0.9", "'optim.halvings' must be an integer between 0 and 99, or a list of such, found 0.9"},
    {"optim.halvings", "100", "'optim.halvings' must be an integer between 0 and 99, or a list of such, found 100"},
    {"optim.halvings", "[9, 100]", "'optim.halvings[1]' must be an integer between 0 and 99, found 100"},
    {"optim.halvings", "[,9]", "'optim.halvings[0]' must be an integer between 0 and 99, found nothing"},
    {"optim.halvings", "[9, [5]]", "found a list"},
    {"optim.warmup", "-1", "must be a count (such as 500, 50k or 2.5M) >= 0, found -1"},
    {"optim.warmup", "50K", "* k stands for 1,000"},
    {"optim.warmup", "0.0001k", "* it is not a whole number"},
    {"train.seed", "-1", "must be an integer >= 0, found -1"},
    {"train.seed", "18446744073709551616", "the range is between 0 and 18446744073709551615"},
    {"train.rows", "9223372036854775808", "the range is between -9223372036854775808 and 9223372036854775807"},
    {"train.rows", "-9223372036854775809", "the range is between -9223372036854775808 and 9223372036854775807"},
    {"train.threads", "0", "must be auto or an integer between 1 and 2147483647, found 0"},
    {"train.threads", "aut", "found \"aut\""},
    {"train.classes", "[a, [b]]", "found a list"},
    {"train.classes", "{a: b}", "must be a list of words, or one word, found a map"},
    {"train.weights", "[1, 2]", "must be a map from names, each to a number > 0, found a list"},
    {"train.weights", "{a: 1, b: 0}", "'train.weights.b' must be a number > 0, found 0"},
    {"train.weights", "{a: x}", "'train.weights.a' must be a number > 0, found \"x\""},
    {"train.weights", "{a: 1, a: 2}", "duplicate key 'a' (first at line"},
};

// "model.attention.type" and "full" -> nested YAML lines.
std::string nested(const std::string& path, const std::string& value) {
  std::string text, indent;
  size_t begin = 0;
  for (size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
    text += indent + path.substr(begin, dot - begin) + ":\n";
    indent += "  ";
    begin = dot + 1;
  }
  return text + indent + path.substr(begin) + ": " + value + "\n";
}

// The message and, after "\n* ", the hint that must follow.
void check_refused(const std::string& report, const std::string& message, const std::string& place) {
  INFO(report);
  const size_t star = message.find("* ");
  CHECK(contains(report, star == std::string::npos ? message : message.substr(0, star == 0 ? 0 : star - 1)));
  if (star != std::string::npos) CHECK(contains(report, "\n  " + message.substr(star + 2)));
  CHECK(contains(report, place));
  CHECK(contains(report, "1 error; nothing was started."));
}

}  // namespace

TEST_CASE("wrong values are refused alike in a file and on the command line", "[quick]") {
  for (const Refusal& r : refusals) {
    INFO(r.key << ": " << r.value);
    check_refused(report_of(nested(r.key, r.value)), r.message, "c.yaml:");
    const std::string message = contains(r.message, "first at line") ? "duplicate key 'a'" : r.message;
    check_refused(report_of("model: {tied: true}\n", {fmt::format("{}={}", r.key, r.value)}), message,
                  "command line: '" + std::string(r.key) + "=");
  }
}

TEST_CASE("bounds: the last value inside is taken, the first outside refused", "[quick]") {
  struct Bound {
    const char* key;
    std::vector<const char*> inside, outside;
  };
  const Bound bounds[] = {
      {"model.dim", {"1", "2147483647"}, {"0", "2147483648", "-2147483648"}},
      {"model.dropout", {"0", "0.9999999999999999", "0.0"}, {"1", "1.0", "-1e-300"}},
      {"model.attention.heads", {"1", "256"}, {"0", "257"}},
      {"optim.learning_rate", {"5e-324", "1e308"}, {"0", "0.0", "-1", "1e309"}},
      {"optim.betas", {"[]", "[0, 0.5]"}, {"[1]", "[-0.1]"}},
      {"optim.halvings", {"0", "[]", "[0, 99]"}, {"-1", "[100]", "[1.5]"}},
      {"optim.warmup", {"0", "9223372036854775807", "9223372036854M"}, {"-1", "9223372036854775808", "9223372036855M"}},
      {"train.seed", {"0", "18446744073709551615"}, {"-1", "18446744073709551616"}},
      {"train.rows", {"-9223372036854775808", "9223372036854775807", "4294967296"}, {"9223372036854775808", "-9223372036854775809"}},
      {"train.threads", {"1", "auto", "2147483647"}, {"0", "-1", "2147483648"}},
      {"train.weights", {"{}", "{a: 1e-9}"}, {"{a: 0}", "{a: -1}"}},
  };
  for (const Bound& b : bounds) {
    for (const char* value : b.inside) {
      INFO(b.key << ": " << value);
      CHECK(report_of(nested(b.key, value)).empty());
    }
    for (const char* value : b.outside) {
      INFO(b.key << ": " << value);
      CHECK(contains(report_of(nested(b.key, value)), std::string("'") + b.key));
    }
  }
}

TEST_CASE("a 64-bit bound is not crossed by rounding", "[quick]") {
  const auto read_below = [](const std::string& value) {
    return error_of([&] {
      Document document = Document::from_text("x: " + value + "\n", "c.yaml", {});
      int64_t x = 0;
      document.root().field("x", x, between(0, 9007199254740992.0), "Up to 2^53.");
      document.finish();
    });
  };
  CHECK(read_below("9007199254740992").empty());
  CHECK(contains(read_below("9007199254740993"), "found 9007199254740993"));
}

TEST_CASE("small integers are numbers, not characters", "[quick]") {
  for (const int value : {1, 7, 9, 10, 12, 48, 255, 256})
    CHECK(read_text(fmt::format("model: {{attention: {{heads: {}}}}}\n", value)).heads == value);
}

TEST_CASE("merge keys are refused by name", "[quick]") {
  const std::string report = report_of("model: &m {dim: 4}\ntrain: {<<: *m, seed: 4}\n");
  CHECK(contains(report, "c.yaml:2:9: error: merge keys ('<<') are not supported"));
  CHECK(contains(report, "base:"));
  CHECK(contains(report, "1 error;"));
}

TEST_CASE("combinations are reported at their key, warnings are returned", "[quick]") {
  const std::string text = "model:\n  dim: 63\n  attention:\n    heads: 2\n";
  const auto check = [&](const char* key, bool only_warn) {
    Document document = Document::from_text(text, "c.yaml", {});
    Section root = document.root();
    const Settings s = read(root);
    Section model = root.section("model", "");
    CHECK(s.dim % s.heads == 1);
    CHECK_FALSE(document.faulty());
    if (only_warn) model.warn(key, "odd");
    else model.fault(key, "'model.dim' (63) must be a multiple of 'model.attention.heads' (2)", "take 64");
    CHECK(document.faulty() != only_warn);
    return document;
  };
  Document at_key = check("dim", false);
  CHECK(error_of([&] { at_key.finish(); }) ==
        "c.yaml:2:3: error: 'model.dim' (63) must be a multiple of 'model.attention.heads' (2)\n    2 |   dim: 63\n      |   ^~~\n"
        "  take 64\n1 error; nothing was started.");
  Document at_section = check("note", false);
  CHECK(contains(error_of([&] { at_section.finish(); }), "c.yaml:1:1: error"));
  Document warned = check("dim", true);
  CHECK(warned.finish() == std::vector<std::string>{"c.yaml:2:3: odd\n    2 |   dim: 63\n      |   ^~~"});
  Document both = check("dim", true);
  both.root().fault("optim", "bad");
  const std::string report = error_of([&] { both.finish(); });
  CHECK(contains(report, "c.yaml: error: bad\n"));
  CHECK(contains(report, "1 error, 1 warning; nothing was started."));
}

TEST_CASE("given and path", "[quick]") {
  Document document = Document::from_text("a: {b: 1, c: , d: {e: 1}}\n", "c.yaml", {});
  Section root = document.root(), a = root.section("a", "A.");
  CHECK(root.given("a"));
  CHECK(a.given("b"));
  CHECK_FALSE(a.given("c"));
  CHECK_FALSE(a.given("x"));
  CHECK(root.path().empty());
  CHECK(root.path("a") == "a");
  CHECK(a.section("d", "D.").path("e") == "a.d.e");
  CHECK_FALSE(root.section("none", "None.").given("b"));
}

TEST_CASE("one key under two types is a fault of the program", "[quick]") {
  Document document = Document::from_text("a: 1\n", "c.yaml", {});
  Section root = document.root();
  int i = 0;
  double d = 0;
  root.field("a", i, at_least(0), "A.");
  root.field("a", i, at_least(0), "A.");
  CHECK(i == 1);
  CHECK(contains(error_of([&] { root.field("a", d, at_least(0), "A."); }, ExitCode::internal), "'a' is asked for as"));
  CHECK(contains(error_of([&] { root.section("a", "A."); }, ExitCode::internal), "as a section"));
  root.section("s", "S.");
  CHECK(contains(error_of([&] { root.field("s", i, at_least(0), "S."); }, ExitCode::internal), "as a section"));
}

TEST_CASE("a fault read by two components counts once", "[quick]") {
  Document document = Document::from_text("a: x\n", "c.yaml", {});
  int i = 0;
  document.root().field("a", i, at_least(0), "A.");
  document.root().field("a", i, at_least(0), "A.");
  CHECK(contains(error_of([&] { document.finish(); }), "1 error;"));
}
