// SPDX-License-Identifier: Apache-2.0
// Slices of columns and joined columns against plain indexing.
#include "framework/ops/columns.h"

#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

TEST_CASE("columns takes the ranges in their order, the same column twice if asked", "[columns]") {
  struct Taken {
    std::vector<ops::ColumnRange> ranges;
    std::vector<int64_t> from;
  };
  const auto taken = GENERATE(Taken{{{4, 3}, {0, 2}, {4, 1}}, {4, 5, 6, 0, 1, 4}}, Taken{{{1, 2}, {3, 1}, {5, 1}}, {1, 2, 3, 5}},
                              Taken{{{0, 3}, {2, 5}}, {0, 1, 2, 2, 3, 4, 5, 6}}, Taken{{{0, 2}}, {0, 1}}, Taken{{{3, 4}}, {3, 4, 5, 6}},
                              Taken{{{2, 3}}, {2, 3, 4}}, Taken{{{0, 7}}, {0, 1, 2, 3, 4, 5, 6}});
  const auto columns = static_cast<int64_t>(taken.from.size());
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {300, 7}, 1)};
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) { return ops::columns(ctx, in[0], taken.ranges); };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) {
    Matrix y(300, columns);
    for (int64_t r = 0; r < 300; ++r)
      for (int64_t k = 0; k < columns; ++k) y(r, k) = in[0](r, taken.from[static_cast<size_t>(k)]);
    return y;
  };
  check_op(c);
}

TEST_CASE("one range of columns is not copied", "[columns]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  const Variable x{Tensor::zeros(Dtype::f64, {4, 6})};
  const Tensor y = ops::columns(ctx, x, {{2, 3}}).value;
  CHECK((y.raw() == x.value.raw() + 2 * sizeof(double) && y.row_stride() == 6));
  CHECK(ops::columns(ctx, x, {{2, 1}, {3, 2}}).value.contiguous());
}

TEST_CASE("join_columns puts arrays side by side", "[columns]") {
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {5, 2}, 1), random_tensor(Dtype::f64, {5, 1}, 2), random_tensor(Dtype::f64, {5, 3}, 3)};
  c.op = [](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) { return ops::join_columns(ctx, in); };
  c.oracle = [](const std::vector<Matrix>& in, const std::vector<Matrix>&) {
    Matrix y(5, 6);
    for (int64_t r = 0; r < 5; ++r) {
      int64_t at = 0;
      for (const Matrix& m : in)
        for (int64_t k = 0; k < m.columns; ++k) y(r, at++) = m(r, k);
    }
    return y;
  };
  check_op(c);
}

TEST_CASE("columns out of range and parts of unequal height are refused", "[columns]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  const Variable x{Tensor::zeros(Dtype::f64, {2, 3})};
  CHECK_THROWS_AS(ops::columns(ctx, x, {{2, 2}}), Error);
  CHECK_THROWS_AS(ops::columns(ctx, x, {{-1, 2}}), Error);
  CHECK_THROWS_AS(ops::join_columns(ctx, {x, {Tensor::zeros(Dtype::f64, {3, 3})}}), Error);
  CHECK_THROWS_AS(ops::join_columns(ctx, {}), Error);
}
