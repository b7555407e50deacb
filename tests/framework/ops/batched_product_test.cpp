// SPDX-License-Identifier: Apache-2.0
// Products of blocks against the sums written out, with every transposition, shared and overlapping operands, and parameters.
#include "framework/ops/batched_product.h"

#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;
using Catch::Matchers::ContainsSubstring;

namespace {

Matrix oracle(const Matrix& a, const Matrix& b, int64_t rows, int64_t columns, const std::vector<ProductGroup>& groups,
              const ops::ProductSettings& s) {
  Matrix c(rows, columns);
  for (const ProductGroup& g : groups)
    for (int64_t m = 0; m < g.c.rows; ++m)
      for (int64_t n = 0; n < g.c.columns; ++n)
        for (int64_t k = 0; k < (s.transpose_a ? g.a.rows : g.a.columns); ++k)
          c(g.c.row + m, g.c.column + n) += s.alpha * (s.transpose_a ? a(g.a.row + k, g.a.column + m) : a(g.a.row + m, g.a.column + k)) *
                                            (s.transpose_b ? b(g.b.row + n, g.b.column + k) : b(g.b.row + k, g.b.column + n));
  return c;
}

// a and b as variables, as parameters, and one of each.
void check(Shape a, Shape b, Shape c, const std::vector<ProductGroup>& groups, const ops::ProductSettings& s, int64_t entries = 30) {
  for (const int parameters : {0, 1, 2, 3}) {
    const bool pa = parameters & 1, pb = parameters & 2;
    OpCase test;
    test.entries = entries;
    (pa ? test.parameters : test.inputs).push_back(random_tensor(Dtype::f64, a, 1));
    (pb ? test.parameters : test.inputs).push_back(random_tensor(Dtype::f64, b, 2));
    test.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>& p) {
      const ops::ProductOperand left = pa ? ops::ProductOperand(p[0]) : ops::ProductOperand(in[0]);
      const ops::ProductOperand right = pb ? ops::ProductOperand(p[pa ? 1 : 0]) : ops::ProductOperand(in[pa ? 0 : 1]);
      return ops::batched_product(ctx, left, right, c, groups, s);
    };
    test.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>& p) {
      return oracle(pa ? p[0] : in[0], pb ? p[pa ? 1 : 0] : in[pa ? 0 : 1], c[0], c[1], groups, s);
    };
    check_op(test);
    if (entries < 30) break;
  }
}

Block placed(int64_t row, int64_t rows, int64_t column, int64_t columns, bool transpose) {
  return transpose ? Block{column, columns, row, rows} : Block{row, rows, column, columns};
}

}  // namespace

TEST_CASE("batched_product multiplies blocks in every transposition", "[batched_product]") {
  const bool ta = GENERATE(false, true), tb = GENERATE(false, true);
  const ops::ProductSettings s{ta, tb, -0.75};
  // Two groups apart, one without rows, one without depth; the rest of the result is 0.
  const std::vector<ProductGroup> groups = {{placed(1, 3, 0, 4, ta), placed(2, 4, 1, 2, tb), {0, 3, 0, 2}},
                                            {placed(0, 2, 2, 3, ta), placed(0, 3, 0, 5, tb), {3, 2, 2, 5}},
                                            {placed(0, 0, 0, 2, ta), placed(0, 2, 0, 3, tb), {1, 0, 3, 3}},
                                            {placed(0, 1, 0, 0, ta), placed(0, 0, 0, 2, tb), {5, 1, 0, 2}}};
  check(ta ? Shape{5, 4} : Shape{4, 5}, tb ? Shape{5, 6} : Shape{6, 5}, {6, 8}, groups, s);
}

TEST_CASE("gradients of shared and overlapping blocks are sums over the groups", "[batched_product]") {
  // One matrix for several sequences of different lengths, as a projection along positions has it.
  std::vector<ProductGroup> groups;
  int64_t row = 0;
  for (const int64_t n : {3, 5, 1, 4}) {
    groups.push_back({{0, 2, 0, n}, {row, n, 0, 3}, {int64_t(groups.size()) * 2, 2, 0, 3}});
    groups.push_back({{0, 2, 0, n}, {row, n, 3, 3}, {int64_t(groups.size() - 1) * 2, 2, 3, 3}});
    groups.back().c.row = groups[groups.size() - 2].c.row;
    row += n;
  }
  for (size_t g = 0; g < groups.size(); ++g) groups[g].c.row = int64_t(g / 2) * 2;
  check({2, 5}, {13, 6}, {8, 6}, groups, {});
}

TEST_CASE("batched_product of sizes beyond every block", "[batched_product]") {
  const bool ta = GENERATE(false, true), tb = GENERATE(false, true);
  const std::vector<ProductGroup> groups = {{placed(0, 150, 3, 300, ta), placed(1, 300, 0, 131, tb), {0, 150, 0, 131}},
                                            {placed(150, 40, 0, 20, ta), placed(0, 20, 130, 17, tb), {150, 40, 131, 17}}};
  check(ta ? Shape{303, 190} : Shape{190, 303}, tb ? Shape{147, 301} : Shape{301, 147}, {190, 148}, groups, {ta, tb, 0.5}, 3);
}

TEST_CASE("batched_product takes a parameter of three axes", "[batched_product]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  Parameter p{"filters", Tensor::of<double>({1, 2, 3, 4, 5, 6, 7, 8}).reshaped({2, 2, 2}), {}, true};
  const Variable x{Tensor::of<double>({1, 10}).reshaped({1, 2})};
  const Matrix y(ops::batched_product(ctx, x, p, {1, 2}, {{{0, 1, 0, 2}, {0, 2, 1, 2}, {0, 1, 0, 2}}}).value);
  CHECK(y.values == std::vector<double>{62, 73});
}

TEST_CASE("a product over no rows is zero, also of arrays without rows", "[batched_product]") {
  for (const TestDevice& device : test_devices()) {
    Context ctx = test_context(device, nullptr);
    const Variable a{Tensor::zeros(device.dtype, {2, 5})}, none{Tensor::zeros(device.dtype, {0, 6})};
    const Matrix y(ops::batched_product(ctx, a, none, {2, 3}, {{{0, 2, 0, 0}, {0, 0, 2, 3}, {0, 2, 0, 3}}}).value);
    CHECK(y.values == std::vector<double>(6));
  }
}

TEST_CASE("blocks are disjoint unless two share an element", "[batched_product]") {
  const Block a{0, 4, 0, 4};
  CHECK(disjoint(std::vector<Block>{a, {4, 4, 0, 4}, {0, 4, 4, 4}, {4, 2, 4, 4}}));
  CHECK(disjoint(std::vector<Block>{a, {2, 0, 1, 3}, {2, 3, 1, 0}}));
  CHECK(disjoint(std::vector<Block>{{0, 10, 5, 1}, {3, 2, 0, 5}, {3, 2, 6, 5}, {5, 5, 0, 5}}));
  CHECK_FALSE(disjoint(std::vector<Block>{a, a}));
  CHECK_FALSE(disjoint(std::vector<Block>{a, {3, 1, 3, 1}}));
  CHECK_FALSE(disjoint(std::vector<Block>{{0, 10, 5, 1}, {3, 2, 0, 6}}));
  CHECK_FALSE(disjoint(std::vector<Block>{{3, 2, 0, 9}, {0, 10, 5, 1}}));
}

TEST_CASE("batched_product refuses blocks that do not fit", "[batched_product]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  const Variable x{Tensor::zeros(Dtype::f64, {4, 4})};
  const Block whole{0, 4, 0, 4};
  const auto run = [&](std::vector<ProductGroup> groups) { ops::batched_product(ctx, x, x, {4, 4}, std::move(groups)); };
  CHECK_THROWS_WITH(run({{{1, 4, 0, 4}, whole, whole}}), ContainsSubstring("group 0 has rows 1 + 4"));
  CHECK_THROWS_WITH(run({{whole, whole, {0, 4, -1, 4}}}), ContainsSubstring("columns -1 + 4 of the result"));
  CHECK_THROWS_WITH(run({{{0, 4, 0, 3}, whole, whole}}), ContainsSubstring("[4 x 3] by [4 x 4]"));
  CHECK_THROWS_WITH(run({{whole, whole, whole}, {whole, {0, 4, 0, 1}, {0, 4, 2, 1}}}), ContainsSubstring("overlap"));
  CHECK_THROWS_WITH(ops::batched_product(ctx, x, x, {2, 2, 4}, {}), ContainsSubstring("expected a matrix"));
}
