// SPDX-License-Identifier: Apache-2.0
// Every attention variant of variants.def, in the size of its config for comparing, keeps what attention_battery.h says; so do mixes of
// them. Further forms of a variant are in its own test.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

std::vector<AttentionCase> cases() {
  std::vector<AttentionCase> out;
  for (const auto& v : models::attention_variants()) {
    out.push_back({std::string(v.name), compare_settings(v.name)});
    // Heads of an odd size, and one head alone.
    for (const auto& [dim, heads] : {std::pair(15, 3), std::pair(16, 1)})
      out.push_back({fmt::format("{} of {} heads in {}", v.name, heads, dim),
                     compare_settings(v.name, {fmt::format("model.dim={}", dim), fmt::format("model.attention.heads={}", heads)})});
  }
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
    const int32_t n = median + c.settings.attention.extra_rows.count;
    const double share = make_attention(c, Dtype::f32)->pairs(n) / (1.0 * n * n);
    INFO(v.name << " looks at " << share);
    patterns += share < 1;
    CHECK((share <= 0.25 || share >= 1));
  }
  CHECK(patterns == 18);
}

TEST_CASE("A26: every variant equals its dense oracle on every device", "[attention]") {
  for (const AttentionCase& c : cases()) check_oracle(c);
}
TEST_CASE("A04: a sequence's bytes do not depend on its batch mates and their lengths", "[attention]") {
  for (const AttentionCase& c : cases()) check_batch_mates(c);
}
TEST_CASE("a NaN in one sequence stays in it", "[attention]") {
  for (const AttentionCase& c : cases()) check_nan_stays(c);
}
TEST_CASE("gradients agree with central differences, with dropout of probabilities where there are some", "[attention]") {
  for (const AttentionCase& c : cases()) check_gradients(c);
}
TEST_CASE("gradients in float on the cpu device are those in double of the reference device", "[attention]") {
  for (const AttentionCase& c : cases()) check_devices_agree(c);
}
TEST_CASE("gradients are the same bytes for 1, 2, 3 and 8 threads", "[attention]") {
  for (const AttentionCase& c : cases()) check_threads(c);
}

TEST_CASE("A01, A26: a row that sees no key gives zeros and finite gradients on every device, and disturbs no other", "[attention]") {
  const std::string kind = "model.attention.type=", own = "model.attention.";
  for (const AttentionCase& c : {attention_case("stride", {kind + "stride", own + "stride={stride: 3, reach: 1, include_self: false}"}),
                                 attention_case("cluster", {kind + "cluster", own + "cluster={clusters: 40, cover_empty: zero}"}),
                                 attention_case("routing", {kind + "routing", own + "routing={clusters: 6, window: 1, cover: false}"})}) {
    check_oracle(c);
    check_batch_mates(c);
    check_gradients(c);
    for (const TestDevice& device : test_devices()) {
      INFO(c.name << " on " << device.name);
      const auto attention = make_attention(c, device.dtype);
      const Packing packing = packing_for(c, {3, 70, 1});
      const Tensor x = random_tensor(device.dtype, {packing.rows(), c.settings.dim}, 18);
      const Matrix y(attention_output(*attention, device, x, packing));
      int64_t zeros = 0;
      for (int64_t r = 0; r < y.rows; ++r)
        zeros += std::all_of(y.values.begin() + r * y.columns, y.values.begin() + (r + 1) * y.columns, [](double v) { return v == 0; });
      CHECK(zeros > 0);
      CHECK(zeros < y.rows);
      for (const Tensor& gradient : gradients_of(*attention, device.on, device.dtype, x, packing)) CHECK(all_finite(gradient));
    }
  }
}

TEST_CASE("pattern variants drop a probability by its query's and its key's place, learned rows counted first", "[attention]") {
  const std::string kind = "model.attention.type=", own = "model.attention.";
  std::vector<AttentionCase> forms{
      attention_case("blocks", {kind + "local", "~model.attention.local", own + "local={form: blocked, block: 7}"}),
      attention_case("strides by head", {kind + "stride", own + "stride={stride: [2, 3], reach: [5, 70]}"}),
      attention_case("summaries", {kind + "sparse_transformer", own + "sparse_transformer={pattern: fixed, stride: 9}"}),
      attention_case("rows anywhere", {kind + "global", own + "global={rows: [5, 40]}"}),
      attention_case("projections of their own", {kind + "global", own + "global={rows: [5, -2], share_projections: false}"}),
      attention_case("rows of the layer", {kind + "global_external", own + "global_external={count: 3, left: 2, carry: false}"}),
      attention_case("learned rows", {kind + "bigbird", own + "bigbird={block: 4, globals: external, count: 3}"})};
  for (const char* name : {"full", "local", "stride", "sparse_transformer", "global", "global_external", "longformer", "bigbird"})
    forms.push_back({name, compare_settings(name)});
  for (const AttentionCase& c : forms) check_dropout(c);
}

TEST_CASE("A13: evaluation gives the same bytes in any order of the sequences, and changes no state", "[attention]") {
  for (const AttentionCase& c : cases())
    for (const TestDevice& device : test_devices()) {
      INFO(c.name << " on " << device.name);
      const auto attention = make_attention(c, device.dtype);
      Context update{.mode = Mode::train, .step = 1000};
      attention->after_update(update);  // where something is drawn anew, it is now of the second draw
      nn::ModelState state;
      attention->visit(state);
      const auto buffers = [&] {
        std::vector<std::vector<double>> all;
        for (const nn::Buffer* b : state.buffers)
          all.push_back(b->value.dtype() == Dtype::i64 ? std::vector<double>{static_cast<double>(b->value.data<int64_t>()[0])}
                                                       : Matrix(b->value).values);
        return all;
      };
      const auto before = buffers();
      const int32_t extra = c.settings.attention.extra_rows.count;
      const Packing packing({9 + extra, 70 + extra}, {3, 4}), turned({70 + extra, 9 + extra}, {4, 3});
      const int64_t first = 9 + extra, rows = packing.rows();
      const Tensor x = random_tensor(device.dtype, {rows, c.settings.dim}, 19);
      Tensor x_turned(device.dtype, x.shape());
      x_turned.rows(0, rows - first).copy_from(x.rows(first, rows - first));
      x_turned.rows(rows - first, first).copy_from(x.rows(0, first));
      const Tensor y = attention_output(*attention, device, x, packing);
      CHECK(Matrix(attention_output(*attention, device, x, packing)).values == Matrix(y).values);
      const Tensor y_turned = attention_output(*attention, device, x_turned, turned);
      CHECK(Matrix(y_turned.rows(rows - first, first)).values == Matrix(y.rows(0, first)).values);
      CHECK(Matrix(y_turned.rows(0, rows - first)).values == Matrix(y.rows(first, rows - first)).values);
      CHECK(buffers() == before);
    }
}
