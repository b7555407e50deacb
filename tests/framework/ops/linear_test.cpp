// SPDX-License-Identifier: Apache-2.0
// Linear layers, fused and composed.
#include "framework/ops/linear.h"

#include "framework/ops/add.h"
#include "framework/ops/dropout.h"
#include "framework/ops/layer_norm.h"
#include "tests/framework/ops/op_check.h"
#include "tests/framework/ops/oracles.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

struct Sizes {
  int64_t rows, in, out;
};
const std::vector<Sizes> sizes = {Sizes{0, 3, 4}, Sizes{1, 1, 1},    Sizes{1, 5, 2},  Sizes{7, 1, 3},
                                  Sizes{9, 6, 1}, Sizes{50, 17, 13}, Sizes{3, 64, 96}};

Tensor filled(Shape shape, uint32_t seed) { return random_tensor(Dtype::f64, shape, seed); }

Packing one_sequence(int64_t rows) { return Packing({static_cast<int32_t>(rows)}, {3}); }

}  // namespace

TEST_CASE("linear equals its formula and differences", "[linear]") {
  const auto s = GENERATE(from_range(sizes));
  const bool bias = GENERATE(false, true);
  INFO(s.rows << " x " << s.in << " x " << s.out << (bias ? " with bias" : ""));
  OpCase c;
  c.inputs = {filled({s.rows, s.in}, 1)};
  c.parameters = {filled({s.out, s.in}, 2)};
  if (bias) c.parameters.push_back(filled({s.out}, 3));
  c.op = [=](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>& p) {
    return ops::linear(ctx, in[0], p[0], bias ? &p[1] : nullptr);
  };
  c.oracle = [=](const std::vector<Matrix>& in, const std::vector<Matrix>& p) {
    return linear_oracle(in[0], p[0], bias ? &p[1] : nullptr);
  };
  check_op(c);
}

TEST_CASE("norm_linear equals layer norm then linear", "[linear]") {
  const auto s = GENERATE(from_range(sizes));
  const bool bias = GENERATE(false, true);
  INFO(s.rows << " x " << s.in << " x " << s.out << (bias ? " with bias" : ""));
  OpCase c;
  if (s.in <= 2) c.cancellation = 20;
  c.inputs = {filled({s.rows, s.in}, 1)};
  c.parameters = {filled({s.in}, 4), filled({s.in}, 5), filled({s.out, s.in}, 2)};
  if (bias) c.parameters.push_back(filled({s.out}, 3));
  const bool fused = GENERATE(false, true);
  c.op = [=](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>& p) {
    const ops::NormParameters norm{&p[0], &p[1], 1e-2};
    Parameter* b = bias ? &p[3] : nullptr;
    return fused ? ops::norm_linear(ctx, in[0], norm, p[2], b) : ops::linear(ctx, ops::layer_norm(ctx, in[0], norm), p[2], b);
  };
  c.oracle = [=](const std::vector<Matrix>& in, const std::vector<Matrix>& p) {
    return linear_oracle(layer_norm_oracle(in[0], p[0], p[1], 1e-2), p[2], bias ? &p[3] : nullptr);
  };
  check_op(c);
}

TEST_CASE("linear_residual equals linear, dropout, add", "[linear]") {
  const auto s = GENERATE(from_range(sizes));
  const double p_drop = GENERATE(0.0, 0.3);
  const bool fused = GENERATE(false, true), bias = GENERATE(false, true);
  INFO(s.rows << " x " << s.in << " x " << s.out << " dropout " << p_drop << (bias ? " with bias" : ""));
  const Packing packing = one_sequence(s.rows);
  OpCase c;
  c.mode = Mode::train;
  c.inputs = {filled({s.rows, s.in}, 1), filled({s.rows, s.out}, 6)};
  c.parameters = {filled({s.out, s.in}, 2)};
  if (bias) c.parameters.push_back(filled({s.out}, 3));
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>& p) {
    const DropoutDraw draw = ctx.dropout(p_drop, "dropout", "out", packing);
    Parameter* b = bias ? &p[1] : nullptr;
    if (fused) return ops::linear_residual(ctx, in[0], p[0], b, draw, in[1]);
    return ops::add(ctx, in[1], ops::dropout(ctx, ops::linear(ctx, in[0], p[0], b), draw));
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>& p) {
    return sum_oracle(
        in[1], dropout_oracle(linear_oracle(in[0], p[0], bias ? &p[1] : nullptr), p_drop, random_key(7, "dropout", "out"), 3, packing));
  };
  check_op(c);
}

TEST_CASE("linear_residual with x as its own residual", "[linear]") {
  OpCase c;
  c.inputs = {filled({5, 6}, 1)};
  c.parameters = {filled({6, 6}, 2), filled({6}, 3)};
  c.op = [](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>& p) {
    return ops::linear_residual(ctx, in[0], p[0], &p[1], {}, in[0]);
  };
  c.oracle = [](const std::vector<Matrix>& in, const std::vector<Matrix>& p) {
    return sum_oracle(in[0], linear_oracle(in[0], p[0], &p[1]));
  };
  check_op(c);
}

TEST_CASE("linear reads strided columns", "[linear]") {
  const Tensor x = filled({4, 10}, 1).columns(2, 5), w = filled({3, 5}, 2);
  for (const TestDevice& device : test_devices()) {
    Context ctx = test_context(device, nullptr);
    Parameter weight{"w", w.converted(device.dtype), {}, true};
    const Variable y = ops::linear(ctx, {filled({4, 10}, 1).converted(device.dtype).columns(2, 5)}, weight, nullptr);
    CHECK(relative_error(Matrix(y.value), linear_oracle(Matrix(x), Matrix(w), nullptr)) <= device.tolerance);
  }
}

TEST_CASE("linear refuses wrong shapes, dtypes and gradients", "[linear]") {
  using Catch::Matchers::ContainsSubstring;
  Context ctx = test_context(test_devices().front(), nullptr);
  const Variable x{Tensor::zeros(Dtype::f64, {2, 3})};
  Parameter w{"layer.weight", Tensor::zeros(Dtype::f64, {4, 5}), {}, true}, b{"layer.bias", Tensor::zeros(Dtype::f64, {3}), {}, true};
  CHECK_THROWS_WITH(ops::linear(ctx, x, w, nullptr),
                    ContainsSubstring("layer.weight") && ContainsSubstring("[4, 5]") && ContainsSubstring("[4, 3]"));
  w.value = Tensor::zeros(Dtype::f64, {4, 3});
  CHECK_THROWS_WITH(ops::linear(ctx, x, w, &b), ContainsSubstring("layer.bias"));
  CHECK_THROWS_WITH(ops::linear_residual(ctx, x, w, nullptr, {}, x), ContainsSubstring("residual"));
  w.gradient = Tensor::zeros(Dtype::f64, {3, 4});
  CHECK_THROWS_WITH(ops::linear(ctx, x, w, nullptr), ContainsSubstring("layer.weight's gradient"));
  w.gradient = {};
  w.value = Tensor::zeros(Dtype::f32, {4, 3});
  CHECK_THROWS_WITH(ops::linear(ctx, x, w, nullptr), ContainsSubstring("float32"));
}
