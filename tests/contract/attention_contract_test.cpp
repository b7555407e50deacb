// SPDX-License-Identifier: Apache-2.0
// Every attention variant of variants.def, in the size of its config for comparing, keeps what attention_battery.h says; so do mixes of
// them. Further forms of a variant are in its own test.
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

std::vector<AttentionCase> cases() {
  std::vector<AttentionCase> out;
  for (const auto& v : models::attention_variants()) out.push_back({std::string(v.name), compare_settings(v.name)});
  out.push_back(attention_case("groups of local, full and linear heads",
                               {"~model.attention.heads",
                                "model.attention.groups=[{type: local, heads: 1}, {type: full, heads: 2}, {type: "
                                "linear, heads: 1}]"}));
  return out;
}

std::set<std::string> registered() {
  std::set<std::string> names;
  for (const auto& v : models::attention_variants()) names.emplace(v.name);
  return names;
}

}  // namespace

TEST_CASE("every variant has a paragraph and a config, and what has one is registered", "[attention]") {
  std::set<std::string> paragraphs, configs;
  std::ifstream readme("models/attention/README.md");
  for (std::string line; std::getline(readme, line);)
    if (line.starts_with("### `")) paragraphs.insert(line.substr(5, line.find('`', 5) - 5));
  for (const auto& file : std::filesystem::directory_iterator("configs/listops/compare"))
    if (file.path().stem() != "base") configs.insert(file.path().stem().string());
  CHECK(paragraphs == registered());
  CHECK(configs == registered());
  CHECK(test_devices().size() >= 3);
}

TEST_CASE("in the configs for comparing, no pattern looks at more than a quarter of the pairs", "[attention]") {
  constexpr int32_t median = 200;
  int patterns = 0;
  for (const auto& v : models::attention_variants()) {
    const AttentionCase c{std::string(v.name), compare_settings(v.name)};
    const double share = make_attention(c, Dtype::f32)->pairs(median + c.settings.attention.extra_rows.count) / (median * median);
    INFO(v.name << " looks at " << share);
    patterns += share < 1;
    CHECK((share <= 0.25 || share >= 1));
  }
  CHECK(patterns == 18);
}

TEST_CASE("every variant equals its dense oracle", "[attention]") {
  for (const AttentionCase& c : cases()) check_oracle(c);
}
TEST_CASE("a sequence's bytes do not depend on its batch mates", "[attention]") {
  for (const AttentionCase& c : cases()) check_batch_mates(c);
}
TEST_CASE("a NaN in one sequence stays in it", "[attention]") {
  for (const AttentionCase& c : cases()) check_nan_stays(c);
}
TEST_CASE("gradients agree with central differences, with dropout of probabilities where there are some", "[attention]") {
  for (const AttentionCase& c : cases()) check_gradients(c);
}
TEST_CASE("gradients are the same bytes for 1, 2, 3 and 8 threads", "[attention]") {
  for (const AttentionCase& c : cases()) check_threads(c);
}
