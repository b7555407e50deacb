// SPDX-License-Identifier: Apache-2.0
// `base:` chains: what merges, what replaces, and what is refused.
#include <fmt/format.h>

#include "tests/framework/config/sample.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::config;
using namespace tapeformer::config::sample;

namespace {

Settings load(const std::filesystem::path& file, const std::vector<std::string>& overrides = {}) {
  Document document = Document::load(file, overrides);
  const Settings s = read(document.root());
  document.finish();
  return s;
}
std::string report_of_file(const std::filesystem::path& file) {
  return error_of([&] { load(file); });
}

}  // namespace

TEST_CASE("maps merge key by key, lists and scalars replace", "[quick]") {
  const TemporaryDirectory d("merge");
  d.write("base.yaml",
          "model: {dim: 32, note: base, attention: {type: [full, local], heads: 4}}\noptim: {betas: [0.5, 0.6]}\ntrain: {weights: {a: 1, "
          "b: 2}}\n");
  const auto file =
      d.write("run.yaml",
              "base: base.yaml\nmodel:\n  note: run\n  attention: {type: linear}\noptim: {betas: [0.7]}\ntrain: {weights: {b: 3, c: 4}}\n");
  const Settings s = load(file);
  CHECK(s.dim == 32);
  CHECK(s.note == "run");
  CHECK(s.attention == std::vector<size_t>{2});
  CHECK(s.heads == 4);
  CHECK(s.betas == std::vector<double>{0.7});
  CHECK(s.weights == std::vector<std::pair<std::string, double>>{{"a", 1}, {"b", 3}, {"c", 4}});
  CHECK(load(d.write("empty.yaml", "base: base.yaml\nmodel:\n")).dim == 32);
  CHECK(load(d.write("only.yaml", "base: base.yaml\n")).dim == 32);
}

TEST_CASE("a base is found relative to the file that names it", "[quick]") {
  const TemporaryDirectory d("relative ünïcode");
  d.write("common/root.yaml", "model: {dim: 24}\n");
  d.write("common/base.yaml", "base: root.yaml\nmodel: {note: x}\n");
  CHECK(load(d.write("runs/a/run.yaml", "base: ../../common/base.yaml\n")).dim == 24);
  CHECK(load(d.write("runs/absolute.yaml", "base: \"" + (d.path() / "common" / "root.yaml").string() + "\"\n")).dim == 24);
}

TEST_CASE("faults are reported in the file where they stand", "[quick]") {
  const TemporaryDirectory d("faults");
  const auto base = d.write("base.yaml", "model:\n  dim: none\n  drpout: 1\n");
  const auto file = d.write("run.yaml", "base: base.yaml\noptim: {warmup: -1}\n");
  const std::string report = report_of_file(file);
  INFO(report);
  const size_t own = report.find(file.string() + ":2:17: error"), below = report.find(base.string() + ":2:8: error");
  REQUIRE(own != std::string::npos);
  REQUIRE(below != std::string::npos);
  CHECK(own < below);
  CHECK(contains(report, base.string() + ":3:3: error: unknown key 'drpout'"));
  CHECK(contains(report, "3 errors;"));
  d.write("base.yaml", "model:\n\tdim: 3\n");
  CHECK(contains(report_of_file(file), base.string() + ":2:1: error: a tab in the indentation"));
}

TEST_CASE("four bases are read, five are not", "[quick]") {
  const TemporaryDirectory d("depth");
  d.write("0.yaml", "model: {dim: 20}\n");
  for (int i = 1; i <= 5; ++i) d.write(fmt::format("{}.yaml", i), fmt::format("base: {}.yaml\n", i - 1));
  CHECK(load(d.path() / "4.yaml").dim == 20);
  CHECK(contains(report_of_file(d.path() / "5.yaml"), "1.yaml:1:7: error: more than 4 bases of bases"));
}

TEST_CASE("bases that lead around are refused", "[quick]") {
  const TemporaryDirectory d("cycle");
  const auto a = d.write("a.yaml", "base: b.yaml\n");
  const auto b = d.write("b.yaml", "base: ./sub/../a.yaml\n");
  std::filesystem::create_directory(d.path() / "sub");
  CHECK(contains(report_of_file(a), b.string() + ":1:7: error"));
  CHECK(contains(report_of_file(a), "is a base of itself"));
  CHECK(contains(report_of_file(d.write("self.yaml", "base: self.yaml\n")), "self.yaml:1:7: error"));
}

TEST_CASE("the base of a file is told without reading it", "[quick]") {
  const TemporaryDirectory d("base of");
  const std::string common = (d.path() / "common.yaml").string();
  const auto base_in = [&](const char* text) {
    const auto base = base_of(d.write("run.yaml", text));
    return base ? base->string() : "no config";
  };
  for (const char* text : {"base: common.yaml\n", "model: {dim: 2}\nbase: ./sub/../common.yaml  # of all\n", "\"base\": 'common.yaml'\n",
                           "{model: {dim: 2}, base: common.yaml}\n", "base:\n  common.yaml\n"})
    CHECK(base_in(text) == common);
  CHECK(base_in("base: /a/b.yaml\n") == "/a/b.yaml");
  for (const char* text : {"model: {base: common.yaml}\n", "model:\n  note: |\n    base: common.yaml\n"}) CHECK(base_in(text).empty());
  for (const char* text : {"base: [common.yaml]\n", "base:\n", "a list\n", "base: common.yaml\nmodel: {\n", ""})
    CHECK(base_in(text) == "no config");
  CHECK_FALSE(base_of(d.path() / "missing.yaml").has_value());
}
