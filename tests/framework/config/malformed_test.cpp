// SPDX-License-Identifier: Apache-2.0
// Files that are no config: each ends in one report with a position, quickly and in little memory.
#include <pthread.h>
#include <sys/resource.h>

#include <ctime>

#include "tests/framework/config/sample.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::config;
using namespace tapeformer::config::sample;

namespace {

std::string repeated(const std::string& part, size_t n) {
  std::string text;
  for (size_t i = 0; i < n; ++i) text += part;
  return text;
}

struct Malformed {
  const char* name;
  std::string text;
  const char* position;  // after the file's name
  const char* message;
};

std::vector<Malformed> corpus() {
  using namespace std::string_literals;
  std::string indented;
  for (size_t i = 0; i < 100; ++i) indented += std::string(i, ' ') + "a:\n";
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i <= 9; ++i) {
    const std::string below = fmt::format("*a{}", i - 1);
    bomb += fmt::format("a{}: &a{} [{}{}]\n", i, i, below, repeated(", " + below, 8));
  }
  std::string deep_by_alias = "b0: &b0 " + repeated("[", 40) + "1" + repeated("]", 40) + "\n";
  deep_by_alias += "b1: " + repeated("[", 40) + "*b0" + repeated("]", 40) + "\n";
  return {
      {"empty", "", ": ", "the config is empty"},
      {"blank", "\n\n  \n", ": ", "the config is empty"},
      {"comment", "# nothing\n", ": ", "the config is empty"},
      {"mark only", "\xEF\xBB\xBF", ": ", "the config is empty"},
      {"dashes only", "---\n", ": ", "the config is empty"},
      {"list at top", "- a\n- b\n", ":1:1", "found a list"},
      {"flow list at top", "[a, b]\n", ":1:1", "found a list"},
      {"word at top", "model\n", ":1:1", "found \"model\""},
      {"number at top", "17\n", ":1:1", "found 17"},
      {"no space after colon", "model:3\n", ":1:1", "found \"model:3\""},
      {"tab as indent", "model:\n\tdim: 4\n", ":2:1", "a tab in the indentation"},
      {"tab after spaces", "model:\n  \tdim: 4\n", ":2:3", "a tab in the indentation"},
      {"tab before a value", "model:\n  note:\n\t\tx\n", ":3:1", "a tab in the indentation"},
      {"bad indent less", "model:\n    dim: 4\n  note: x\n", ":3:3", "does not fit"},
      {"bad indent more", "model:\n  dim: 4\n    note: x\n", ":3:", "a ':' that can't stand here"},
      {"bad indent after section", "model:\n  dim: 4\n train:\n", ":3:2", "does not fit"},
      {"two documents", "model: {dim: 4}\n---\ntrain: {seed: 1}\n", ":2:1", "a second document"},
      {"document after end", "model: {dim: 4}\n...\ntrain: {seed: 1}\n", ":3:1", "does not belong to what stands above"},
      {"list then key", "- item\nmodel: {dim: 4}\n", ":2:1", "does not belong to what stands above"},
      {"key then list", "model: {dim: 4}\n- item\n", ":2:1", "does not fit"},
      {"flow then key", "{model: {dim: 4}}\ntrain: {seed: 1}\n", ":2:1", "does not belong to what stands above"},
      {"words after map", "{model: {dim: 4}} tail\n", ":1:19", "does not belong to what stands above"},
      {"open single quote", "model:\n  note: 'abc\n  dim: 4\n", ":2:9", "this ' is never closed"},
      {"open double quote", "model:\n  note: \"abc\n  dim: 4\n", ":2:9", "this \" is never closed"},
      {"open quote escaped", "model: {note: 'it''s}\n", ":1:15", "this ' is never closed"},
      {"open quoted key", "\"model: 3\n", ":1:1", "this \" is never closed"},
      {"text after quotes", "model:\n  note: 'a' b\n", ":2:13", "does not fit"},
      {"open bracket", "model:\n  attention: {type: [full\ntrain: {seed: 1}\n", ":3:6", "is not closed"},
      {"open brace", "model: {dim: 4\n", ":2:1", "'{' is not closed"},
      {"closing bracket", "model: ]\n", ":1:8", "never opened"},
      {"closing brace", "model: }\n", ":1:8", "never opened"},
      {"last line is a word", "model: {dim: 4}\ntrain\n", ":2:1", "no ':' after this key"},
      {"last nested line is a word", "model:\n  dim: 4\n  tied\n", ":3:3", "no ':' after this key"},
      {"word between keys", "model: {dim: 4}\ntrain\noptim: {warmup: 1}\n", ":3:6", "for a missing ':' on the line above"},
      {"flow key without value", "model: {dim, tied: true}\n", ":1:9", "no ':' after this key"},
      {"key without name", ": 3\n", ":1:1", "a ':' without a key"},
      {"two colons", "model: note: x\n", ":1:12", "a ':' that can't stand here"},
      {"item on key's line", "train: - a\n", ":1:8", "a list item"},
      {"at sign", "model: {note: @x}\n", ":1:15", "can't start with this character"},
      {"back quote", "model: {note: `x`}\n", ":1:15", "can't start with this character"},
      {"bad escape", "model: {note: \"\\q\"}\n", ":1:18", "unknown escape"},
      {"tag", "model: {dim: !!int 4}\n", ":1:14", "tags"},
      {"tag on map", "model: !thing {dim: 4}\n", ":1:8", "tags"},
      {"directive", "%YAML 1.2\n---\nmodel: {dim: 4}\n", ":1:1", "directives"},
      {"directive below", "model: {dim: 4}\n% x: 3\n", ":2:1", "directives"},
      {"map as key", "{a: b}: 3\n", ":1:1", "a key must be a word"},
      {"list as key", "[a]: 3\n", ":1:1", "a key must be a word"},
      {"template", "model: {{dim}}\n", ":1:9", "a key must be a word"},
      {"unknown alias", "model: *other\n", ":1:8", "without its anchor"},
      {"alias of itself", "model: &m {attention: *m}\n", ":1:23", "inside of what it stands for"},
      {"alias as key", "model: &m dim\n*m : 3\n", ":2:1", "an alias can't be a key"},
      {"alias bomb", bomb, ":6:", "more than 100000 values"},
      {"alias bomb under unknown key",
       "unknown:\n  x: &x [1,1,1,1,1,1,1,1,1,1]\n  y: &y [*x" + repeated(",*x", 999) + "]\n  z: [*y" + repeated(",*y", 99) + "]\n",
       ":4:", "more than 100000 values"},
      {"deep by aliases", deep_by_alias, ":2:", "more than 64 levels"},
      {"100,000 brackets", repeated("[", 100'000), ":1:65", "more than 64 levels"},
      {"50,000 braces", repeated("{a:", 50'000), ":1:", "more than 64 levels"},
      {"brackets that look closed", "a: " + repeated("[ ']', ", 100'000), ":1:", "more than 20000 brackets"},
      {"dashes in one line", repeated("- ", 100'000), ":1:", "more than 64 levels"},
      {"question marks", repeated("? ", 100'000), ":1:", "a key must be a word"},
      {"deep by indentation", indented, ":65:65", "more than 64 levels"},
      {"200,000 values", "train: {classes: [a" + repeated(",a", 200'000) + "]}\n", ":1:", "more than 100000 values"},
      {"10 MB line", "model: {note: " + std::string(10'000'000, 'x') + "}\n", ": ", "larger than 1048576 bytes"},
      {"just above 1 MiB", "# " + std::string(1 << 20, 'x') + "\n", ": ", "larger than 1048576 bytes"},
      {"NUL", "model: {dim: 4}\n"s + '\0' + "\n", ":2:1", "control character 0x00"},
      {"ELF",
       "\x7F"
       "ELF\x02\x01\x01",
       ":1:1", "control character 0x7f"},
      {"HDF5", "\x89HDF\r\n\x1a\n", ":1:1", "byte 0x89 is not UTF-8"},
      {"escape codes", "model: {note: \x1b[31mred}\n", ":1:15", "control character 0x1b"},
      {"C1 control",
       "model: {note: \xC2\x9B"
       "31m}\n",
       ":1:15", "is not UTF-8 text"},
      {"Latin-1", "model: {note: caf\xE9}\n", ":1:18", "byte 0xe9 is not UTF-8"},
      {"overlong UTF-8", "model: {note: \xC0\xAF}\n", ":1:15", "byte 0xc0 is not UTF-8"},
      {"surrogate", "model: {note: \xED\xA0\x80}\n", ":1:15", "byte 0xed is not UTF-8"},
      {"cut UTF-8", "model: {note: x\xE2\x82", ":1:16", "byte 0xe2 is not UTF-8"},
      {"UTF-16", "\xFF\xFEm\0o\0"s, ":1:1", "UTF-16"},
      {"carriage returns only", "model:\r  dim: 4\r", ":1:7", "a carriage return"},
      {"base is a list", "base: [a.yaml]\nmodel: {dim: 4}\n", ":1:7", "'base' must be the path"},
      {"base is empty", "base:\nmodel: {dim: 4}\n", ":", "'base' must be the path"},
      {"base is missing", "base: not_there.yaml\nmodel: {dim: 4}\n", ":1:7", "can't read the base"},
      {"base is a directory", "base: /\nmodel: {dim: 4}\n", ":1:7", "it is a directory"},
      {"base is the file itself", "base: c.yaml\n", ":1:7", "is a base of itself"},
  };
}

// Seconds of processor time a file may take; sanitizers need more, of memory too.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int slack = 20;
#else
constexpr int slack = 1;
#endif

long peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

}  // namespace

TEST_CASE("malformed files end in one report with a position, in time and memory", "[quick]") {
  const TemporaryDirectory directory("malformed");
  const std::vector<Malformed> all = corpus();
  REQUIRE(all.size() >= 70);
  for (const Malformed& m : all) {
    INFO(m.name);
    const auto file = directory.write("c.yaml", m.text);
    const long before = peak_kib();
    const std::clock_t start = std::clock();
    const std::string report = error_of([&] {
      Document document = Document::load(file, {});
      read(document.root());
      document.finish();
    });
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    INFO(report);
    CHECK(contains(report, file.string() + m.position));
    CHECK(contains(report, m.message));
    CHECK(contains(report, "1 error; nothing was started."));
    CHECK(report.size() < 2000);
    CHECK(seconds < slack);
    CHECK(peak_kib() - before < slack * 64 * 1024);
  }
}

TEST_CASE("malformed files need a small stack", "[quick]") {
  static int refused;
  refused = 0;
  static const std::vector<Malformed> all = corpus();
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  REQUIRE(pthread_attr_setstacksize(&attributes, 256 * 1024) == 0);
  pthread_t thread;
  const auto body = [](void*) -> void* {
    for (const Malformed& m : all) refused += !report_of(m.text).empty();
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, body, nullptr) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  CHECK(refused == static_cast<int>(all.size()));
}

TEST_CASE("a file that can't be read is named with the reason", "[quick]") {
  const TemporaryDirectory directory("unreadable");
  const auto load = [](const std::filesystem::path& file) { return error_of([&] { Document::load(file, {}); }); };
  const std::string missing = load(directory.path() / "none.yaml");
  CHECK(contains(missing, "none.yaml: error: can't read it: No such file or directory\n1 error; nothing was started."));
  CHECK(contains(load(directory.path()), "it is a directory"));
  CHECK(contains(load(directory.path() / "x" / "y.yaml"), "No such file"));
  CHECK(contains(load(""), "No such file"));
  CHECK(contains(load("a\nb.yaml"), "a\\nb.yaml: error"));
}

TEST_CASE("a byte order mark, CRLF and no last newline are fine", "[quick]") {
  for (const std::string text :
       {"\xEF\xBB\xBFmodel:\n  dim: 48\n  note: x\n", "model:\r\n  dim: 48\r\n  note: x\r\n", "model:\n  dim: 48\n  note: x",
        "\xEF\xBB\xBFmodel: {dim: 48, note: x}\r\n", "---\nmodel: {dim: 48, note: x}\n...\n", "? model\n: {dim: 48, note: x}\n",
        "model:   # a comment\n  dim: 48\n\n  # another\n  note:\n    x\n", "{model: {dim: 48, note: x}}"}) {
    INFO(text);
    const Settings settings = read_text(text);
    CHECK(settings.dim == 48);
    CHECK(settings.note == "x");
  }
  const std::string report = report_of("\xEF\xBB\xBFmodel:\r\n  dim: 4.5\r\n");
  CHECK(contains(report, "c.yaml:2:8: error: 'model.dim' must be an integer >= 1, found 4.5\n    2 |   dim: 4.5\n      |        ^~~\n"));
}

TEST_CASE("nesting up to the limit is read", "[quick]") {
  const std::string report = report_of("unknown: " + repeated("[", 63) + repeated("]", 63) + "\n");
  CHECK(contains(report, "unknown key 'unknown' at the top level"));
  CHECK(lines_with(report, "error:") == 1);
}

TEST_CASE("anchors are applied", "[quick]") {
  const Settings s =
      read_text("model: {dim: &width 48, note: &n ~, attention: &a {type: local}}\ntrain: {rows: *width, classes: [*n, *width]}\n");
  CHECK(s.rows == 48);
  CHECK(s.classes == std::vector<std::string>{"~", "48"});
  const std::string report = report_of("model: &m {dim: 0}\noptim: *m\n");
  CHECK(contains(report, "unknown key 'dim' in 'optim'"));
}
