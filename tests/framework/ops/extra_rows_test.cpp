// SPDX-License-Identifier: Apache-2.0
// Rows in front of sequences: put there, taken off, and the learned rows' gradient summed over the sequences.
#include "framework/ops/extra_rows.h"

#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

const Packing packing({3, 0, 5, 300}, {0, 1, 2, 3});

Matrix with_front(const Matrix& extra, const Matrix& x) {
  Matrix y(x.rows + extra.rows * packing.sequences(), x.columns);
  int64_t to = 0;
  for (int b = 0; b < packing.sequences(); ++b) {
    for (int64_t r = 0; r < extra.rows; ++r, ++to)
      for (int64_t c = 0; c < x.columns; ++c) y(to, c) = extra(r, c);
    for (int64_t r = packing.offsets()[static_cast<size_t>(b)]; r < packing.offsets()[static_cast<size_t>(b) + 1]; ++r, ++to)
      for (int64_t c = 0; c < x.columns; ++c) y(to, c) = x(r, c);
  }
  return y;
}

}  // namespace

TEST_CASE("put_in_front", "[extra_rows]") {
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {2, 3}, 1), random_tensor(Dtype::f64, {308, 3}, 2)};
  c.op = [](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    return ops::put_in_front(ctx, in[0], in[1], packing);
  };
  c.oracle = [](const std::vector<Matrix>& in, const std::vector<Matrix>&) { return with_front(in[0], in[1]); };
  check_op(c);
  CHECK(packing.longer_by(2).rows() == 316);
  CHECK(&packing.longer_by(2) == &packing.longer_by(2));
}

TEST_CASE("a parameter in front, taken off again, leaves the rows as they were", "[extra_rows]") {
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {308, 3}, 2)};
  c.parameters = {random_tensor(Dtype::f64, {4, 3}, 1)};
  c.op = [](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>& p) {
    return ops::take_off_front(ctx, ops::put_in_front(ctx, ops::parameter(ctx, p[0]), in[0], packing), packing, 4);
  };
  c.oracle = [](const std::vector<Matrix>& in, const std::vector<Matrix>&) { return in[0]; };
  check_op(c);
}

TEST_CASE("the gradient of a parameter in front is the sum over the sequences", "[extra_rows]") {
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {308, 3}, 2)};
  c.parameters = {random_tensor(Dtype::f64, {4, 3}, 1)};
  c.op = [](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>& p) {
    return ops::put_in_front(ctx, ops::parameter(ctx, p[0]), in[0], packing);
  };
  c.oracle = [](const std::vector<Matrix>& in, const std::vector<Matrix>& p) { return with_front(p[0], in[0]); };
  check_op(c);
}

TEST_CASE("rows that do not fit the packing are refused", "[extra_rows]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  const Variable x{Tensor::zeros(Dtype::f64, {307, 3})}, extra{Tensor::zeros(Dtype::f64, {2, 3})},
      narrow{Tensor::zeros(Dtype::f64, {2, 2})};
  CHECK_THROWS_AS(ops::put_in_front(ctx, extra, x, packing), Error);
  CHECK_THROWS_AS(ops::put_in_front(ctx, narrow, {Tensor::zeros(Dtype::f64, {308, 3})}, packing), Error);
  CHECK_THROWS_AS(ops::take_off_front(ctx, x, packing, 2), Error);
}
