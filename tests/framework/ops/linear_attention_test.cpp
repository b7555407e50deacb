// SPDX-License-Identifier: Apache-2.0
// Linear attention against the explicit matrix of weights f(q_i) . f(k_j).
#include <cmath>
#include <limits>

#include "framework/ops/attention.h"
#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

constexpr double epsilon = 1e-3;

double feature(double x) { return x > 0 ? x + 1 : std::exp(x); }

// o_i = sum_j w_ij v_j / (sum_j w_ij + epsilon), w_ij = f(q_i) . f(k_j); qkv holds q, k and v side by side.
Matrix oracle(const Packing& packing, int heads, const Matrix& qkv) {
  const int64_t width = qkv.columns / 3, dims = width / heads;
  Matrix o(qkv.rows, width), features = qkv;
  for (double& x : features.values) x = feature(x);
  for (int b = 0; b < packing.sequences(); ++b)
    for (int64_t head = 0; head < width; head += dims)
      for (int64_t i = packing.offsets()[size_t(b)]; i < packing.offsets()[size_t(b) + 1]; ++i) {
        double denominator = epsilon;
        for (int64_t j = packing.offsets()[size_t(b)]; j < packing.offsets()[size_t(b) + 1]; ++j) {
          double w = 0;
          for (int64_t d = head; d < head + dims; ++d) w += features(i, d) * features(j, width + d);
          for (int64_t c = head; c < head + dims; ++c) o(i, c) += w * qkv(j, 2 * width + c);
          denominator += w;
        }
        for (int64_t c = head; c < head + dims; ++c) o(i, c) /= denominator;
      }
  return o;
}

Matrix side_by_side(const std::vector<Matrix>& parts) {
  Matrix all(parts[0].rows, 3 * parts[0].columns);
  for (int64_t r = 0; r < all.rows; ++r)
    for (int64_t c = 0; c < all.columns; ++c) all(r, c) = parts[size_t(c / parts[0].columns)](r, c % parts[0].columns);
  return all;
}

}  // namespace

TEST_CASE("linear attention equals its quadratic form and differences", "[linear_attention]") {
  const auto head_dim = GENERATE(1, 5, 7, 16);
  const auto lengths = GENERATE(std::vector<int32_t>{0, 1, 2, 9, 0}, std::vector<int32_t>{63, 64, 65, 0, 129}, std::vector<int32_t>{0});
  const int heads = 2;
  const Packing packing(lengths, std::vector<uint32_t>(lengths.size()));
  OpCase c;
  c.entries = packing.rows() > 100 ? 4 : 40;
  for (uint32_t i = 1; i <= 3; ++i) c.inputs.push_back(random_tensor(Dtype::f64, {packing.rows(), heads * head_dim}, i));
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    return ops::linear_attention(ctx, in[0], in[1], in[2], packing, heads, epsilon);
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) { return oracle(packing, heads, side_by_side(in)); };
  check_op(c);
}

TEST_CASE("linear attention on one array of q, k and v", "[linear_attention]") {
  const Packing packing({4, 0, 7}, {0, 1, 2});
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {11, 18}, 1)};
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    return ops::linear_attention(ctx, in[0], packing, 2, epsilon);
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) { return oracle(packing, 2, in[0]); };
  check_op(c);
}

TEST_CASE("features of very negative inputs stay positive", "[linear_attention]") {
  const Packing packing({3}, {0});
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    Context ctx = test_context(device, nullptr);
    // elu(-20) + 1 is 0 in float; exp(-20) is not. With epsilon 0 the output is then still the mean of v.
    Tensor qkv = Tensor::of<double>({-20, -20, 1, -20, -20, 2, -20, -20, 6}).reshaped({3, 3}).converted(device.dtype);
    const Matrix o(ops::linear_attention(ctx, {qkv}, packing, 1, 0).value);
    for (double v : o.values) CHECK(std::abs(v - 3) < 1e-5);
  }
}

TEST_CASE("what other sequences hold changes no byte of linear attention", "[linear_attention]") {
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    Context ctx = test_context(device, nullptr);
    const Tensor mine = random_tensor(device.dtype, {67, 24}, 1);
    const Matrix alone(ops::linear_attention(ctx, {mine}, Packing({67}, {0}), 2, epsilon).value);
    for (const double filling : {1e30, std::numeric_limits<double>::quiet_NaN()}) {
      Tensor all(Dtype::f64, {8 + 67 + 5, 24});
      std::ranges::fill(all.span<double>(), filling);
      all = all.converted(device.dtype);
      all.rows(8, 67).copy_from(mine);
      const Tensor o = ops::linear_attention(ctx, {all}, Packing({8, 67, 5}, {0, 1, 2}), 2, epsilon).value;
      CHECK(Matrix(o.rows(8, 67)).values == alone.values);
    }
  }
}

TEST_CASE("linear attention refuses heads and rows that do not fit", "[linear_attention]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  const Variable qkv{Tensor::zeros(Dtype::f64, {5, 12})};
  CHECK_THROWS_WITH(ops::linear_attention(ctx, qkv, Packing({5}, {0}), 3, 0), Catch::Matchers::ContainsSubstring("3 heads"));
  CHECK_THROWS_WITH(ops::linear_attention(ctx, qkv, Packing({4}, {0}), 2, 0), Catch::Matchers::ContainsSubstring("5 rows"));
}
