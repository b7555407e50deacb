// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution against its formula: sequences shorter and longer than the kernel, odd widths, no mixing of sequences.
#include "framework/ops/depthwise_conv.h"

#include "framework/core/parallel.h"
#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

Matrix formula(const Matrix& x, const Matrix& w, const Matrix& residual, const std::vector<int32_t>& lengths) {
  Matrix y = residual;
  int64_t first = 0;
  for (const int32_t n : lengths) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        if (const int64_t t = j - i + (w.columns - 1) / 2; t >= 0 && t < w.columns)
          for (int64_t c = 0; c < x.columns; ++c) y(first + i, c) += w(c * w.rows / x.columns, t) * x(first + j, c);
    first += n;
  }
  return y;
}

}  // namespace

TEST_CASE("depthwise_conv equals its formula and differences", "[depthwise_conv]") {
  const auto taps = GENERATE(1, 3, 9, 33);
  const std::vector<int32_t> lengths = GENERATE(std::vector<int32_t>{1, 0, 2, 40, 7}, std::vector<int32_t>{33, 17});
  const Packing packing(lengths, std::vector<uint32_t>(lengths.size(), 0));
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {packing.rows(), 22}, 1), random_tensor(Dtype::f64, {packing.rows(), 22}, 2)};
  c.parameters = {random_tensor(Dtype::f64, {2, taps}, 3)};
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>& p) {
    return ops::depthwise_conv(ctx, in[0], p[0], packing, in[1]);
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>& p) { return formula(in[0], p[0], in[1], lengths); };
  check_op(c);
}

TEST_CASE("depthwise_conv has the same bytes alone, in a batch and on any number of threads", "[depthwise_conv]") {
  const std::vector<int32_t> lengths{3, 1100, 64, 513};
  const Packing packing(lengths, {0, 1, 2, 3});
  const Tensor x = random_tensor(Dtype::f32, {packing.rows(), 16}, 4), weight = random_tensor(Dtype::f32, {2, 7}, 5);
  const auto run = [&](int threads, const Tensor& rows, const Packing& of) {
    ThreadPool pool(threads);
    Tape tape({Device::cpu, &pool});
    Context ctx{.on = {Device::cpu, &pool}, .tape = &tape, .dtype = Dtype::f32};
    Parameter w{"w", weight, Tensor::zeros(Dtype::f32, weight.shape())};
    const Variable y = ops::depthwise_conv(ctx, {rows, no_node}, w, of, {Tensor::zeros(Dtype::f32, rows.shape()), no_node});
    tape.backward(y);
    return std::pair(y.value, w.gradient);
  };
  const auto [one, gradient] = run(1, x, packing);
  for (const int threads : {2, 3, 8}) {
    const auto [many, other] = run(threads, x, packing);
    CHECK(std::memcmp(one.raw(), many.raw(), one.bytes()) == 0);
    CHECK(std::memcmp(gradient.raw(), other.raw(), gradient.bytes()) == 0);
  }
  for (size_t b = 0; b < lengths.size(); ++b) {
    const Tensor own = x.rows(packing.offsets()[b], lengths[b]).clone();
    const Tensor alone = run(2, own, Packing({lengths[b]}, {0})).first;
    CHECK(std::memcmp(alone.raw(), one.rows(packing.offsets()[b], lengths[b]).raw(), alone.bytes()) == 0);
  }
}

TEST_CASE("depthwise_conv refuses an even kernel and heads that do not divide the columns", "[depthwise_conv]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  const Packing packing({2}, {0});
  const Variable x{Tensor::zeros(Dtype::f64, {2, 6})};
  for (const Shape& shape : {Shape{2, 4}, Shape{4, 3}}) {
    Parameter w{"w", Tensor::zeros(Dtype::f64, shape), {}};
    CHECK_THROWS_WITH(ops::depthwise_conv(ctx, x, w, packing, x), Catch::Matchers::ContainsSubstring("odd"));
  }
}
