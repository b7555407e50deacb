// SPDX-License-Identifier: Apache-2.0
// Losses against their formulas, with weights, smoothing and ignored targets.
#include "framework/ops/loss.h"

#include <cmath>

#include "framework/kernels/cross_entropy.h"
#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

constexpr int32_t none = kernels::ignored_target;

struct Weights {
  bool classes, rows;
};

// A loss as a [1,1] matrix.
Matrix scalar(double value) {
  Matrix m(1, 1);
  m(0, 0) = value;
  return m;
}

double cross_entropy_oracle(const Matrix& x, const std::vector<int32_t>& targets, const Matrix* class_weights, const Matrix* row_weights,
                            double s) {
  double total = 0;
  for (int64_t r = 0; r < x.rows; ++r) {
    const int32_t t = targets[static_cast<size_t>(r)];
    if (t == none) continue;
    double sum = 0, loss = 0;
    for (int64_t k = 0; k < x.columns; ++k) sum += std::exp(x(r, k));
    for (int64_t k = 0; k < x.columns; ++k) {
      const double q = (k == t ? 1 - s : 0) + s / double(x.columns);
      loss -= q * std::log(std::exp(x(r, k)) / sum);
    }
    total += loss * (class_weights ? (*class_weights)(t, 0) : 1) * (row_weights ? (*row_weights)(r, 0) : 1);
  }
  return total;
}

}  // namespace

TEST_CASE("cross-entropy equals its formula and differences", "[loss]") {
  const auto smoothing = GENERATE(0.0, 0.1);
  const auto use = GENERATE(Weights{false, false}, Weights{true, false}, Weights{false, true}, Weights{true, true});
  const auto targets = GENERATE(std::vector<int32_t>{2}, std::vector<int32_t>{0, 3, none, 1, 1}, std::vector<int32_t>{none, none});
  const auto rows = static_cast<int64_t>(targets.size());
  const Tensor class_weights = random_tensor(Dtype::f64, {4}, 2, 0.2, 1), row_weights = random_tensor(Dtype::f64, {rows}, 3, 0.2, 1);
  const Matrix cw(class_weights), rw(row_weights);
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {rows, 4}, 1)};
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    ops::CrossEntropySettings settings{{}, {}, smoothing};
    if (use.classes) settings.class_weights = class_weights.converted(ctx.dtype);
    if (use.rows) settings.row_weights = row_weights.converted(ctx.dtype);
    const ops::Loss loss = ops::cross_entropy(ctx, in[0], Tensor::of(targets), settings);
    double count = 0;
    for (int64_t r = 0; r < rows; ++r)
      if (const int32_t t = targets[static_cast<size_t>(r)]; t != none) count += (use.classes ? cw(t, 0) : 1) * (use.rows ? rw(r, 0) : 1);
    CHECK(std::abs(loss.count - count) < 1e-6);
    CHECK(loss.per_row.shape() == Shape{rows});
    return loss.sum;
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) {
    return scalar(cross_entropy_oracle(in[0], targets, use.classes ? &cw : nullptr, use.rows ? &rw : nullptr, smoothing));
  };
  check_op(c);
}

TEST_CASE("cross-entropy of huge logits is finite, and of one class is 0", "[loss]") {
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    Context ctx = test_context(device, nullptr);
    const Tensor x = Tensor::of<double>({1e4, -1e4, 0, 1e4, -1e4, 0}).reshaped({2, 3}).converted(device.dtype);
    const Matrix rows(ops::cross_entropy(ctx, {x}, Tensor::of<int32_t>({0, 1}), {}).per_row);
    CHECK(rows(0, 0) == 0);
    CHECK(rows(1, 0) == 2e4);
    const ops::Loss one =
        ops::cross_entropy(ctx, {Tensor::of<double>({5}).reshaped({1, 1}).converted(device.dtype)}, Tensor::of<int32_t>({0}), {});
    CHECK(Matrix(one.sum.value)(0, 0) == 0);
    CHECK(one.count == 1);
  }
}

TEST_CASE("all targets ignored: sum 0, count 0, gradient 0", "[loss]") {
  for (const TestDevice& device : test_devices()) {
    Tape tape(device.on);
    Context ctx = test_context(device, &tape);
    Matrix gradient;
    const Variable x{random_tensor(device.dtype, {2, 3}, 1), tape.record("x", [&](Tape&, const Tensor& g) { gradient = Matrix(g); })};
    const ops::Loss loss = ops::cross_entropy(ctx, x, Tensor::of<int32_t>({none, none}), {});
    CHECK(Matrix(loss.sum.value)(0, 0) == 0);
    CHECK(loss.count == 0);
    tape.backward(loss.sum);
    CHECK(gradient.values == std::vector<double>(6, 0.0));
  }
}

TEST_CASE("mean squared error equals its formula and differences", "[loss]") {
  const auto rows = GENERATE(1, 5), columns = GENERATE(1, 3);
  const bool weighted = GENERATE(false, true), float_target = GENERATE(false, true);
  const Tensor target = random_tensor(Dtype::f64, {rows, columns}, 2), row_weights = random_tensor(Dtype::f64, {rows}, 3, 0.2, 1);
  const Matrix t(target), w(row_weights);
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {rows, columns}, 1)};
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    const ops::Loss loss = ops::mean_squared_error(ctx, in[0], target.converted(float_target ? Dtype::f32 : ctx.dtype),
                                                   weighted ? row_weights.converted(ctx.dtype) : Tensor());
    double count = 0;
    for (int r = 0; r < rows; ++r) count += weighted ? w(r, 0) : 1;
    CHECK(std::abs(loss.count - count) < 1e-6);
    return loss.sum;
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) {
    double total = 0;
    for (int r = 0; r < rows; ++r)
      for (int k = 0; k < columns; ++k) total += (weighted ? w(r, 0) : 1) * std::pow(in[0](r, k) - t(r, k), 2) / columns;
    return scalar(total);
  };
  check_op(c);
}

TEST_CASE("losses refuse targets that do not fit", "[loss]") {
  using Catch::Matchers::ContainsSubstring;
  Context ctx = test_context(test_devices().front(), nullptr);
  const Variable x{Tensor::zeros(Dtype::f64, {2, 3})};
  CHECK_THROWS_WITH(ops::cross_entropy(ctx, x, Tensor::of<int32_t>({0, 3}), {}), ContainsSubstring("target 3 in row 1"));
  CHECK_THROWS_WITH(ops::cross_entropy(ctx, x, Tensor::of<int32_t>({-1, 0}), {}), ContainsSubstring("target -1 in row 0"));
  CHECK_THROWS_WITH(ops::cross_entropy(ctx, x, Tensor::of<int32_t>({0}), {}), ContainsSubstring("targets"));
  CHECK_THROWS_WITH(ops::cross_entropy(ctx, x, Tensor::of<int32_t>({0, 1}), {Tensor::zeros(Dtype::f64, {2}), {}, 0}),
                    ContainsSubstring("class_weights"));
  CHECK_THROWS_WITH(ops::cross_entropy(ctx, x, Tensor::of<int32_t>({0, 1}), {{}, {}, 1}), ContainsSubstring("smoothing"));
  CHECK_THROWS_WITH(ops::mean_squared_error(ctx, x, Tensor::zeros(Dtype::f64, {3, 2}), {}), ContainsSubstring("target"));
  CHECK_THROWS_WITH(ops::mean_squared_error(ctx, x, Tensor::zeros(Dtype::i32, {2, 3}), {}), ContainsSubstring("int32"));
}
