// SPDX-License-Identifier: Apache-2.0
// Weighted sums of rows against the dense product with the map written as a matrix.
#include "framework/ops/sparse_rows.h"

#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;
using Catch::Matchers::ContainsSubstring;

namespace {

using Dense = std::vector<std::vector<double>>;  // [result rows][rows of x]

RowMap sparse(const Dense& dense, int64_t rows, bool ones = false) {
  RowMap map;
  map.rows = rows;
  for (const std::vector<double>& row : dense) {
    for (size_t s = 0; s < row.size(); ++s)
      if (row[s] != 0) {
        map.source.push_back(int32_t(s));
        if (!ones) map.weight.push_back(row[s]);
      }
    map.begin.push_back(int32_t(map.source.size()));
  }
  return map;
}

void check(const std::vector<Dense>& dense, int64_t rows, int heads, int64_t head_columns, bool ones = false) {
  std::vector<ops::RowMapPointer> maps;
  for (const Dense& d : dense) maps.push_back(std::make_shared<RowMap>(sparse(d, rows, ones)));
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {rows, heads * head_columns}, 1)};
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) { return ops::sparse_rows(ctx, in[0], maps, heads); };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) {
    Matrix y(int64_t(dense[0].size()), heads * head_columns);
    for (int64_t r = 0; r < y.rows; ++r)
      for (int64_t col = 0; col < y.columns; ++col)
        for (int64_t s = 0; s < rows; ++s)
          y(r, col) += dense[dense.size() == 1 ? 0 : size_t(col / head_columns)][size_t(r)][size_t(s)] * in[0](s, col);
    return y;
  };
  check_op(c);
}

}  // namespace

TEST_CASE("sparse_rows gathers, repeats and leaves out rows", "[sparse_rows]") {
  const int64_t columns = GENERATE(1, 7, 64, 67);
  check({{{0, 1, 0, 0}, {0, 1, 0, 0}, {0, 0, 0, 0}, {1, 0, 0, 0}, {0, 0, 0, 1}}}, 4, 1, columns, true);
}

TEST_CASE("sparse_rows weighs the rows that it adds, for each head on its own", "[sparse_rows]") {
  const double third = 1 / 3.0;
  const Dense mean = {{third, third, third, 0, 0}, {0, 0, 0, 0.5, 0.5}}, other = {{0, 0, 2, 0, -1}, {0, 0, 0, 0, 0}};
  const int64_t columns = GENERATE(1, 5, 16, 33);
  check({mean}, 5, 2, columns);
  check({mean, other}, 5, 2, columns);
  check({other, mean, other}, 5, 3, columns);
}

TEST_CASE("heads may share a map", "[sparse_rows]") {
  const auto one = std::make_shared<RowMap>(sparse({{0, 1, 0, 2}, {0, 0, 0, 0}, {3, 1, 0, 0}}, 4)),
             other = std::make_shared<RowMap>(sparse({{1, 0, 0, 0}, {0, 0, 4, 0}, {0, 0, 0, 1}}, 4));
  const std::vector<ops::RowMapPointer> shared{one, other, one, one, other}, same(5, other);
  const auto of = [](const std::vector<ops::RowMapPointer>& maps) {
    OpCase c;
    c.inputs = {random_tensor(Dtype::f64, {4, 15}, 1)};
    c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) { return ops::sparse_rows(ctx, in[0], maps, 5); };
    c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) {
      Matrix y(3, 15);
      for (int64_t r = 0; r < 3; ++r)
        for (int64_t col = 0; col < 15; ++col) {
          const RowMap& map = *maps[size_t(col / 3)];
          for (auto e = size_t(map.begin[size_t(r)]); e < size_t(map.begin[size_t(r) + 1]); ++e)
            y(r, col) += map.weight[e] * in[0](map.source[e], col);
        }
      return y;
    };
    check_op(c);
  };
  of(shared);
  of(same);
}

TEST_CASE("an entry may stand twice in a row, and a map may give no rows", "[sparse_rows]") {
  RowMap twice;
  twice.rows = 2;
  twice.begin = {0, 2};
  twice.source = {1, 1};
  Context ctx = test_context(test_devices().front(), nullptr);
  const Tensor x = Tensor::of<double>({1, 2, 3, 4}).reshaped({2, 2});
  const Matrix y(ops::sparse_rows(ctx, {x}, std::make_shared<RowMap>(twice)).value);
  CHECK(y.values == std::vector<double>{6, 8});
  RowMap none;
  none.rows = 2;
  CHECK(ops::sparse_rows(ctx, {x}, std::make_shared<RowMap>(none)).value.shape() == Shape{0, 2});
}

TEST_CASE("the transposed map lists rows in ascending order and transposes back", "[sparse_rows]") {
  RowMap map;
  map.rows = 4;
  map.begin = {0, 2, 2, 5};
  map.source = {3, 1, 0, 1, 3};
  map.weight = {1, 2, 3, 4, 5};
  const RowMap t = transposed(map);
  CHECK(t.rows == 3);
  CHECK(t.begin == std::vector<int32_t>{0, 1, 3, 3, 5});
  CHECK(t.source == std::vector<int32_t>{2, 0, 2, 0, 2});
  CHECK(t.weight == std::vector<double>{3, 2, 4, 1, 5});
  const RowMap back = transposed(t);
  CHECK(back.begin == map.begin);
  CHECK(back.source == std::vector<int32_t>{1, 3, 0, 1, 3});
}

TEST_CASE("sparse_rows refuses maps that do not fit", "[sparse_rows]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  const Variable x{Tensor::zeros(Dtype::f64, {3, 4})};
  const auto run = [&](RowMap map) { ops::sparse_rows(ctx, x, std::make_shared<RowMap>(std::move(map))); };
  CHECK_THROWS_WITH(run({2, {0, 1}, {0}, {}}), ContainsSubstring("reads 2 rows, x has 3"));
  CHECK_THROWS_WITH(run({3, {0, 1}, {3}, {}}), ContainsSubstring("outside of 0 .. 2"));
  CHECK_THROWS_WITH(run({3, {0, 1}, {-1}, {}}), ContainsSubstring("outside of 0 .. 2"));
  CHECK_THROWS_WITH(run({3, {0, 2}, {0}, {}}), ContainsSubstring("do not ascend to its 1 entries"));
  CHECK_THROWS_WITH(run({3, {0, 1}, {0}, {1, 2}}), ContainsSubstring("2 weights for 1 entries"));
  CHECK_THROWS_WITH(ops::sparse_rows(ctx, x, nullptr), ContainsSubstring("missing"));
  const std::vector<ops::RowMapPointer> three(3, std::make_shared<RowMap>(RowMap{3, {0, 1}, {0}, {}}));
  CHECK_THROWS_WITH(ops::sparse_rows(ctx, x, three, 2), ContainsSubstring("3 maps for 2 heads"));
  CHECK_THROWS_WITH(ops::sparse_rows(ctx, x, three, 3), ContainsSubstring("4 columns do not divide into 3 heads"));
}
