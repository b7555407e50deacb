// SPDX-License-Identifier: Apache-2.0
// Compressed attention: windows that overlap, leave gaps or are cut by the end, in each mode; windows of one row; what is refused.
#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

const std::string key = "model.attention.compressed.";

AttentionCase compressed(std::vector<std::string> overrides, const std::string& name = "compressed") {
  overrides.push_back("model.attention.type=compressed");
  return attention_case(name, overrides);
}

Matrix output(models::Attention& attention, const Tensor& x, const Packing& packing) {
  return Matrix(attention_output(attention, test_devices().front(), x, packing));
}

}  // namespace

TEST_CASE("each way to compress keeps what every attention keeps", "[compressed]") {
  for (const char* mode : {"conv", "mean", "max"})
    for (const auto& [factor, kernel] : std::vector<std::pair<int, std::string>>{{3, "factor"}, {2, "5"}, {4, "1"}, {64, "70"}})
      check_attention(compressed({key + "mode=" + mode, fmt::format("{}factor={}", key, factor), key + "kernel=" + kernel},
                                 fmt::format("{} factor {} kernel {}", mode, factor, kernel)));
}

TEST_CASE("compressed heads drop what a row takes from a window", "[compressed]") {
  for (const char* mode : {"conv", "mean", "max"}) check_dropout(compressed({key + "mode=" + mode, key + "factor=2", key + "kernel=5"}));
}

TEST_CASE("windows take heads of any width, and heads stand beside others", "[compressed]") {
  check_attention(compressed({"model.dim=15", "model.attention.heads=3", key + "kernel=5"}, "heads of 5"));
  check_attention(attention_case(
      "groups of fewer keys",
      {"~model.attention.heads",
       "model.attention.groups=[{type: linformer, linformer: {share: none, rank: 4}}, {type: nystrom, nystrom: {landmarks: 3, kernel: 3}}, "
       "{type: compressed, heads: 2}]"}));
}

TEST_CASE("windows of one row that keep it are full attention", "[compressed]") {
  const auto full = make_attention(attention_case("full", {"model.attention.type=full"}), Dtype::f64);
  const Packing packing({1, 13, 70}, {0, 1, 2});
  const Tensor x = random_tensor(Dtype::f64, {84, 8}, 51);
  for (const char* mode : {"conv", "mean", "max"}) {
    std::vector<std::string> overrides{key + "mode=" + mode, key + "factor=1"};
    if (mode == std::string("conv")) overrides.push_back(key + "start=mean");
    const auto attention = make_attention(compressed(overrides), Dtype::f64);
    INFO(mode);
    CHECK(relative_error(output(*attention, x, packing), output(*full, x, packing)) <= 1e-12);
  }
}

TEST_CASE("filters that start as the mean give the mean where no window is cut", "[compressed]") {
  const auto conv = make_attention(compressed({key + "start=mean"}), Dtype::f64);
  const auto mean = make_attention(compressed({key + "mode=mean"}), Dtype::f64);
  for (const int32_t n : {12, 13}) {
    const Tensor x = random_tensor(Dtype::f64, {n, 8}, 52);
    const bool same = relative_error(output(*conv, x, Packing({n}, {0})), output(*mean, x, Packing({n}, {0}))) <= 1e-12;
    CHECK(same == (n == 12));  // what lies beyond the end counts as zero for a filter and not at all for a mean
  }
}

TEST_CASE("filters and biases are for each head, and apart for keys and values", "[compressed]") {
  const auto attention = make_attention(compressed({key + "factor=3", key + "kernel=5"}), Dtype::f64);
  nn::ModelState state;
  attention->visit(state);
  std::map<std::string, Shape> shapes;
  for (const Parameter* p : state.parameters) shapes[p->name] = p->value.shape();
  CHECK(shapes.at("attention.compression.weight") == Shape{2 * 2 * 5 * 4, 4});
  CHECK(shapes.at("attention.compression.bias") == Shape{1, 16});
  nn::ModelState of_mean;
  make_attention(compressed({key + "mode=mean"}), Dtype::f64)->visit(of_mean);
  CHECK(of_mean.parameters.size() == state.parameters.size() - 2);
}

TEST_CASE("the maximum's gradient goes to the first of equal rows", "[compressed]") {
  const auto attention = make_attention(compressed({key + "mode=max"}), Dtype::f64);
  for (const TestDevice& device : {test_devices().front()}) {
    const Packing packing({6}, {0});
    const Tensor one = random_tensor(Dtype::f64, {1, 8}, 53), x(Dtype::f64, {6, 8});
    for (int64_t r = 0; r < 6; ++r) x.rows(r, 1).copy_from(one);
    // The first row of each window, and the query of every row, are all that an output row depends on.
    Tape tape(device.on);
    Context context{.on = device.on, .tape = &tape, .mode = Mode::train, .dtype = Dtype::f64};
    Tensor dx;
    const int node = tape.record("x", [&](Tape&, const Tensor& gradient) { dx = gradient.clone(); });
    const Variable y = attention->forward(context, {x, node}, packing, {.residual = {Tensor::zeros(Dtype::f64, {6, 8}), no_node}}).x;
    tape.backward(y);
    const Matrix d(dx);
    // Equal keys leave the queries without gradient, so rows that are not first have none at all.
    for (int64_t r = 0; r < 6; ++r) {
      double largest = 0;
      for (int64_t c = 0; c < 8; ++c) largest = std::max(largest, std::abs(d(r, c)));
      INFO("row " << r << ": " << largest);
      CHECK((largest > 1e-6) == (r % 3 == 0));
      CHECK((r % 3 == 0 || largest <= 1e-12));
    }
  }
}

TEST_CASE("shown weights spread a window's probability over its rows; filters and maxima have no weights to show", "[compressed]") {
  const auto weights = [](const char* mode) {
    const auto attention = make_attention(compressed({key + "mode=" + mode}), Dtype::f64);
    Context context{.on = test_devices().front().on, .dtype = Dtype::f64};
    return attention->weights(context, {random_tensor(Dtype::f64, {7, 8}, 54), no_node}, Packing({7}, {0}), {});
  };
  CHECK(!weights("conv").defined());
  CHECK(!weights("max").defined());
  const Matrix w(weights("mean"));
  REQUIRE(w.rows == 14);
  for (int64_t r = 0; r < 14; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < 7; ++c) sum += w(r, c);
    CHECK(std::abs(sum - 1) <= 1e-12);
    CHECK(std::abs(w(r, 0) - w(r, 2)) <= 1e-12);
    CHECK(std::abs(w(r, 3) - w(r, 5)) <= 1e-12);
  }
}

TEST_CASE("numbers that make no window are refused", "[compressed]") {
  for (const char* wrong : {"factor=0", "kernel=0", "kernel=factors", "mode=min", "start=zero"})
    CHECK_THROWS_WITH(compressed({key + wrong}), Catch::Matchers::ContainsSubstring("model.attention.compressed."));
}

TEST_CASE("cost and pairs of windows", "[compressed]") {
  const auto conv = make_attention(compressed({}), Dtype::f64), mean = make_attention(compressed({key + "mode=mean"}), Dtype::f64);
  CHECK(conv->pairs(10) == 40);
  CHECK(mean->cost({10}).forward_flops == 4.0 * 10 * 4 * 8);
  CHECK(mean->cost({10}).backward_flops == 10.0 * 10 * 4 * 8);
  CHECK(conv->cost({10}).forward_flops == 4.0 * 10 * 4 * 8 + 4.0 * 4 * 3 * 16 * 2);
}
