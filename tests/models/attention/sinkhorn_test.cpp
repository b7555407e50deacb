// SPDX-License-Identifier: Apache-2.0
// Sinkhorn attention: soft, hard and SortCut with each net, their limits, where dropout draws, and what settings are refused.
#include <cmath>
#include <set>

#include "framework/core/random.h"
#include "framework/ops/sinkhorn.h"
#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;
using Catch::Matchers::ContainsSubstring;

namespace {

AttentionCase sinkhorn(const std::string& name, std::vector<std::string> own = {}) {
  std::vector<std::string> overrides{"model.attention.type=sinkhorn", "model.attention.sinkhorn.block=16"};
  for (const std::string& o : own) overrides.push_back("model.attention.sinkhorn." + o);
  return attention_case(name, overrides);
}

Parameter& parameter(models::Attention& a, std::string_view name) {
  nn::ModelState state;
  a.visit(state);
  for (Parameter* p : state.parameters)
    if (p->name == fmt::format("attention.{}", name)) return *p;
  FAIL("no parameter " << name);
  return *state.parameters.front();
}

void set_identity(Parameter& p) {
  p.value.fill_zero();
  for (int64_t i = 0; i < p.value.shape()[0]; ++i) p.value.data<double>()[i * p.value.shape()[1] + i] = 1;
}

Matrix output_of(const AttentionCase& c, const Tensor& x, const Packing& packing) {
  return Matrix(attention_output(*make_attention(c, Dtype::f64), test_devices().front(), x, packing));
}

}  // namespace

TEST_CASE("soft sinkhorn keeps what every attention keeps, with each net", "[sinkhorn]") {
  check_attention(sinkhorn("linear net"));
  check_attention(sinkhorn("two layers", {"net=two_layers", "block=3", "temperature=2"}));
  check_attention(sinkhorn("attention net", {"net=attention", "iterations=3", "block=2"}));
  check_attention(sinkhorn("with full attention", {"add_full=true", "block=64"}));
  check_attention(sinkhorn("cut", {"sort_cut=2", "block=5"}));
}

// Differences of a permutation are no gradient: it is checked in parts in tests/framework/ops/sinkhorn_test.cpp.
TEST_CASE("hard sinkhorn keeps what every attention keeps but differences", "[sinkhorn]") {
  for (const AttentionCase& c : {sinkhorn("hard", {"hard=true"}), sinkhorn("hard, attention net", {"hard=true", "net=attention", "block=20"}),
                                 sinkhorn("hard cut", {"hard=true", "sort_cut=3"})}) {
    check_oracle(c);
    check_batch_mates(c);
    check_nan_stays(c);
    check_threads(c);
  }
}

TEST_CASE("a permutation shows a row its own block and the one sorted to its place, each once", "[sinkhorn]") {
  const AttentionCase c = sinkhorn("hard", {"hard=true", "block=4"});
  const auto attention = make_attention(c, Dtype::f64);
  const int n = 22;
  const Packing packing({n}, {0});
  Structures chosen;
  Context context{.on = test_devices().front().on, .dtype = Dtype::f64};
  context.structures = &chosen;
  const Variable x{random_tensor(Dtype::f64, {n, 8}, 7), no_node};
  const Matrix w(attention->weights(context, x, packing, {}));
  const Tensor p = chosen.at("attention.permutations");
  for (int h = 0; h < 2; ++h) {
    std::set<int> sources;
    for (int u = 0; u < 6; ++u) sources.insert(p.data<int32_t>()[u * 2 + h]);
    CHECK(sources.size() == 6);
    for (int i = 0; i < n; ++i) {
      double sum = 0;
      for (int j = 0; j < n; ++j) {
        CHECK((w(h * n + i, j) != 0) == (j / 4 == i / 4 || j / 4 == p.data<int32_t>()[i / 4 * 2 + h]));
        sum += w(h * n + i, j);
      }
      CHECK(std::abs(sum - 1) <= 1e-12);
    }
  }
}

TEST_CASE("one block, and a hard cut of all blocks, are full attention", "[sinkhorn]") {
  const AttentionCase full = attention_case("full", {"model.attention.type=full"});
  for (const int n : {1, 2, 15, 16, 17, 65, 130}) {
    const Packing packing({n}, {0});
    const Tensor x = random_tensor(Dtype::f64, {n, 8}, 3);
    const Matrix expected = output_of(full, x, packing);
    const std::string one = "block=" + std::to_string(n);
    CHECK(relative_error(output_of(sinkhorn("one block", {one}), x, packing), expected) <= 1e-12);  // each key twice
    CHECK(relative_error(output_of(sinkhorn("larger block", {"block=200"}), x, packing), expected) <= 1e-12);
    CHECK(relative_error(output_of(sinkhorn("hard", {one, "hard=true"}), x, packing), expected) <= 1e-12);
    CHECK(relative_error(output_of(sinkhorn("hard cut", {"hard=true", "sort_cut=99"}), x, packing), expected) <= 1e-12);
  }
}

TEST_CASE("equal scores show a row the mean of the blocks", "[sinkhorn]") {
  const auto attention = make_attention(sinkhorn("soft", {"block=4"}), Dtype::f64);
  parameter(*attention, "sort.weight").value.fill_zero();
  const int n = 24;
  Context context{.on = test_devices().front().on, .dtype = Dtype::f64};
  const Matrix w(attention->weights(context, {random_tensor(Dtype::f64, {n, 8}, 7), no_node}, Packing({n}, {0}), {}));
  for (int r = 0; r < 2 * n; ++r) {
    const int i = r % n, other = i / 4 == 0 ? 20 : 0;
    for (int j = 0; j < n; ++j) {
      CHECK(w(r, j) > 0);
      if (j / 4 != i / 4) CHECK(std::abs(w(r, j) - w(r, other + j % 4)) <= 1e-14);
      else CHECK(w(r, j) > w(r, other + j % 4));
    }
  }
}

TEST_CASE("of a cut every row sees the same keys, wherever it stands", "[sinkhorn]") {
  const auto attention = make_attention(sinkhorn("cut", {"sort_cut=1", "hard=true", "block=4"}), Dtype::f64);
  const int n = 19;
  Context context{.on = test_devices().front().on, .dtype = Dtype::f64};
  const Matrix w(attention->weights(context, {random_tensor(Dtype::f64, {n, 8}, 7), no_node}, Packing({n}, {0}), {}));
  for (int h = 0; h < 2; ++h) {
    std::set<int> blocks;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) {
        CHECK((w(h * n + i, j) != 0) == (w(h * n, j) != 0));
        if (w(h * n + i, j) != 0) blocks.insert(j / 4);
      }
    CHECK(blocks.size() == 1);
  }
}

TEST_CASE("dropout draws at the slot of soft keys and at the place of permuted ones", "[sinkhorn]") {
  // With queries and keys of zero all keys weigh the same; values and output pass the rows on.
  const int n = 24, b = 4;
  const Packing packing({n}, {6});
  const Tensor x = random_tensor(Dtype::f64, {n, 8}, 3);
  const Matrix rows(x);
  for (const std::string form : {"soft", "soft cut", "hard", "hard cut"}) {
    INFO(form);
    const bool hard = form.starts_with("hard"), cut = form.ends_with("cut");
    const auto attention = make_attention(sinkhorn(form, {"block=4", "noise=0", hard ? "hard=true" : "hard=false", cut ? "sort_cut=2" : "sort_cut=0"}),
                                          Dtype::f64, 0.3);
    for (const char* name : {"query.weight", "query.bias", "key.weight", "key.bias", "value.bias", "output.bias"})
      parameter(*attention, name).value.fill_zero();
    for (const char* name : {"value.weight", "output.weight"}) set_identity(parameter(*attention, name));
    Structures chosen;
    Context context{.on = test_devices().front().on, .mode = Mode::train, .seed = 9, .step = 3, .dtype = Dtype::f64};
    context.structures = &chosen;
    const Matrix o(attention->forward(context, {x, no_node}, packing, {.residual = {Tensor::zeros(Dtype::f64, {n, 8}), no_node}}).x.value);
    Matrix expected(n, 8);
    for (int c = 0; c < 8; ++c) {
      const Draw draw{random_key(9, "attention_dropout", "attention", c / 4), 6, 3};
      const auto source = [&](int u) { return chosen.at("attention.permutations").data<int32_t>()[u * 2 + c / 4]; };
      const auto slot = [&](int u, int t) {  // of sorted block u
        if (hard) return rows(source(u) * b + t, c);
        double mean = 0;
        for (int v = 0; v < n / b; ++v) mean += rows(v * b + t, c) / (n / b);
        return mean;
      };
      for (int i = 0; i < n; ++i) {
        double sum = 0;
        int count = 0;
        const auto add = [&](double value, int place) {
          ++count;
          if (draw.word(static_cast<uint32_t>(i), static_cast<uint32_t>(place)) >= dropout_threshold(0.3)) sum += value / 0.7;
        };
        const int u = i / b;
        for (int s = cut ? 0 : u; s < (cut ? 2 : u + 1); ++s)
          for (int t = 0; t < b; ++t)
            if (!hard) add(slot(s, t), cut ? s * b + t : t);
            else if (cut || source(u) != u) add(slot(s, t), source(s) * b + t);
        for (int t = 0; t < b && !cut; ++t) add(rows(u * b + t, c), hard ? u * b + t : b + t);
        expected(i, c) = sum / count;
      }
    }
    CHECK(relative_error(o, expected) <= 1e-12);
  }
}

TEST_CASE("noise is drawn in training only, and is the step's", "[sinkhorn]") {
  const auto attention = make_attention(sinkhorn("soft", {"block=4"}), Dtype::f64);
  const Packing packing({24}, {6});
  const Tensor x = random_tensor(Dtype::f64, {24, 8}, 3);
  const auto run = [&](Mode mode, uint32_t step) {
    Context context{.on = test_devices().front().on, .mode = mode, .seed = 9, .step = step, .dtype = Dtype::f64};
    return Matrix(attention->forward(context, {x, no_node}, packing, {.residual = {Tensor::zeros(Dtype::f64, {24, 8}), no_node}}).x.value).values;
  };
  CHECK(run(Mode::train, 1) != run(Mode::train, 2));
  CHECK(run(Mode::train, 1) == run(Mode::train, 1));
  CHECK(run(Mode::evaluate, 1) == run(Mode::evaluate, 2));
  CHECK(run(Mode::evaluate, 1) == run(Mode::calibrate, 1));
}

TEST_CASE("the net's parameters, the pairs and the cost", "[sinkhorn]") {
  const auto linear = make_attention(sinkhorn("linear"), Dtype::f64);
  CHECK(parameter(*linear, "sort.weight").value.shape() == Shape{2 * 19, 4});  // 300 rows are 19 blocks of 16
  double largest = 0;
  for (const double v : parameter(*linear, "sort.weight").value.span<double>()) largest = std::max(largest, std::abs(v));
  CHECK(largest <= std::sqrt(6.0 / (19 + 4)));
  CHECK(largest > 0.9 * std::sqrt(6.0 / (19 + 4)));
  const auto two = make_attention(sinkhorn("two", {"net=two_layers", "max_length=400"}), Dtype::f64);
  CHECK(parameter(*two, "sort.weight").value.shape() == Shape{2 * 25, 4});
  CHECK(parameter(*two, "sort.bias").value.shape() == Shape{2, 25});
  CHECK(parameter(*two, "sort.up.weight").value.shape() == Shape{8, 4});
  CHECK(parameter(*two, "sort.up.bias").value.shape() == Shape{2, 4});
  nn::ModelState state, full;
  make_attention(sinkhorn("attention", {"net=attention"}), Dtype::f64)->visit(state);
  make_attention(attention_case("full", {"model.attention.type=full"}), Dtype::f64)->visit(full);
  CHECK(state.parameters.size() == full.parameters.size());

  CHECK(linear->pairs(64) == 64 * 32);
  CHECK(linear->pairs(70) == 64 * 32 + 6 * (16 + 6));
  CHECK(linear->pairs(5) == 25);
  CHECK(make_attention(sinkhorn("cut", {"sort_cut=2"}), Dtype::f64)->pairs(70) == 70 * 32);
  CHECK(make_attention(sinkhorn("both", {"add_full=true"}), Dtype::f64)->pairs(64) == 64 * 32 + 64 * 64);
  const models::AttentionCost cost = linear->cost({64});
  CHECK(cost.forward_flops == 2 * (2.0 * 4 * 4 * 4 + 8 * 8 * 16 + 4 * 64 * 4 * 4 + 4 * 64 * 32 * 4));
  CHECK(cost.backward_flops == 2 * (4.0 * 4 * 4 * 4 + 12 * 8 * 16 + 8 * 64 * 4 * 4 + 10 * 64 * 32 * 4));
  CHECK(cost.saved_bytes == 4 * 2 * (2.0 * 16 + 2 * 128 * 4 + 64 * 5));
}

TEST_CASE("A15: low temperatures and large scores give matrices of finite numbers that sum to one", "[sinkhorn]") {
  const Packing blocks({6, 1, 3}, {0, 1, 2});
  for (const TestDevice& device : test_devices())
    for (const double temperature : {0.04, 1e-3}) {
      INFO(device.name << ", temperature " << temperature);
      Tensor scores(Dtype::f64, {10, 6});
      const Draw draw{random_key(1, "test", "scores"), no_sample, 0};
      for (uint32_t i = 0; i < 60; ++i) scores.data<double>()[i] = 10 * draw.uniform(0, i) - 5;
      Context context{.on = device.on, .dtype = device.dtype};
      const Matrix p(ops::sinkhorn(context, {scores.converted(device.dtype), no_node}, {}, blocks, {1, temperature, 4000}).value);
      for (int b = 0; b < 3; ++b) {
        const int64_t first = blocks.offsets()[static_cast<size_t>(b)], m = blocks.length(b);
        for (int64_t u = 0; u < m; ++u) {
          double row = 0, column = 0;
          for (int64_t v = 0; v < m; ++v) row += p(first + u, v), column += p(first + v, u);
          CHECK(std::abs(row - 1) <= 1e-3);
          CHECK(std::abs(column - 1) <= 1e-3);
        }
      }
    }
  check_oracle(sinkhorn("low temperature", {"temperature=0.04", "block=5"}));
}

TEST_CASE("settings that make no sense are refused", "[sinkhorn]") {
  CHECK_THROWS_WITH(model_settings({"model.attention.sinkhorn.block=0"}), ContainsSubstring("model.attention.sinkhorn.block"));
  CHECK_THROWS_WITH(model_settings({"model.attention.sinkhorn.net=deep"}), ContainsSubstring("two_layers"));
  CHECK_THROWS_WITH(make_attention(sinkhorn("short", {"max_length=299"}), Dtype::f64),
                    ContainsSubstring("model.attention.sinkhorn.max_length") && ContainsSubstring("data.max_length"));
  const auto attention = make_attention(sinkhorn("linear"), Dtype::f64);
  const auto run = [](models::Attention& a) { attention_output(a, test_devices().front(), Tensor::zeros(Dtype::f64, {301, 8}), Packing({301}, {0})); };
  CHECK_THROWS_WITH(run(*attention), ContainsSubstring("model.attention.sinkhorn.max_length") && ContainsSubstring("data.max_length"));
  run(*make_attention(sinkhorn("attention", {"net=attention"}), Dtype::f64));  // it has no length
  CHECK_THROWS_WITH(sinkhorn("attention", {"net=attention", "max_length=9"}),
                    ContainsSubstring("'model.attention.sinkhorn.max_length' has no meaning with 'model.attention.sinkhorn.net: attention'"));
}

TEST_CASE("sinkhorn heads stand beside others", "[sinkhorn]") {
  check_attention(attention_case(
      "groups", {"~model.attention.heads", "model.attention.groups=[{type: full}, {type: sinkhorn, heads: 3, sinkhorn: {block: 8}}]"}));
}
