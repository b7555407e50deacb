// SPDX-License-Identifier: Apache-2.0
// Products of blocks: checks, forward and backward.
#include "framework/ops/batched_product.h"

#include <memory>
#include <string_view>

#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/gradient.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {
namespace {

using Groups = std::vector<ProductGroup>;

void check_block(std::string_view what, size_t group, const Block& b, const Shape& shape) {
  const int64_t rows = shape[0], columns = rows ? shape.count() / rows : shape[1];
  require(b.row >= 0 && b.rows >= 0 && b.row + b.rows <= rows && b.column >= 0 && b.columns >= 0 && b.column + b.columns <= columns,
          "batched_product: group {} has rows {} + {} and columns {} + {} of {}, which is {}", group, b.row, b.rows, b.column, b.columns,
          what, shape.text());
}

void check_operand(const Context& ctx, std::string_view name, const ProductOperand& x) {
  if (x.parameter) {
    require(x.value.defined() && x.value.shape().rank() >= 2, "batched_product: {} is not a matrix", x.parameter->name);
    return check_parameter(ctx, "batched_product", *x.parameter, x.value.shape());
  }
  check_matrix(ctx, "batched_product", name, x.value);
}

void check_groups(const ProductOperand& a, const ProductOperand& b, const Shape& of_c, const Groups& groups, const ProductSettings& s) {
  std::vector<Block> results;
  for (size_t g = 0; g < groups.size(); ++g) {
    const ProductGroup& p = groups[g];
    check_block("a", g, p.a, a.value.shape());
    check_block("b", g, p.b, b.value.shape());
    check_block("the result", g, p.c, of_c);
    const int64_t m = s.transpose_a ? p.a.columns : p.a.rows, left = s.transpose_a ? p.a.rows : p.a.columns;
    const int64_t n = s.transpose_b ? p.b.rows : p.b.columns, right = s.transpose_b ? p.b.columns : p.b.rows;
    require(m == p.c.rows && n == p.c.columns && left == right,
            "batched_product: group {} multiplies [{} x {}] by [{} x {}] into [{} x {}]", g, m, left, right, n, p.c.rows, p.c.columns);
    results.push_back(p.c);
  }
  require(disjoint(results), "batched_product: blocks of the result overlap");
}

double products(const Groups& groups, const ProductSettings& s) {
  double sum = 0;
  for (const ProductGroup& g : groups)
    sum += static_cast<double>(g.c.rows * g.c.columns) * static_cast<double>(s.transpose_a ? g.a.rows : g.a.columns);
  return sum;
}

bool records(const Context& ctx, const ProductOperand& x) { return ctx.tape && (x.parameter ? x.parameter->trainable : x.node != no_node); }

template <class T>
void launch(const Execution& on, const Groups& groups, bool transpose_a, bool transpose_b, double alpha, const Tensor& a, const Tensor& b,
            const Tensor& c, kernels::Write write) {
  kernels::launch<kernels::BatchedProduct, T>(on, kernels::BatchedProductCall{groups, transpose_a, transpose_b, alpha}, a.matrix<const T>(),
                                              b.matrix<const T>(), c.matrix<T>(), write);
}

// What a backward product writes: [x] of the groups' roles (first, second, result).
Groups in_roles(const Groups& groups, Block ProductGroup::*first, Block ProductGroup::*second, Block ProductGroup::*result) {
  Groups out;
  for (const ProductGroup& g : groups) out.push_back({g.*first, g.*second, g.*result});
  return out;
}

GradientTarget target(Tape& tape, const ProductOperand& x) {
  if (x.parameter) return {parameter_gradient(x.parameter), kernels::Write::add};
  return tape.gradient_target(x.node, x.value.dtype(), x.value.shape());
}

// With A = op(a), B = op(b), C = alpha A B: dA = alpha dC B', dB = alpha A' dC, each transposed where its operand is.
void backward_a(Tape& tape, const ProductOperand& a, const ProductOperand& b, const Groups& groups, const ProductSettings& s,
                const Tensor& dc) {
  const GradientTarget da = target(tape, a);
  dispatch(dc.dtype(), [&]<class T>(T) {
    using P = ProductGroup;
    if (s.transpose_a)
      launch<T>(tape.execution(), in_roles(groups, &P::b, &P::c, &P::a), s.transpose_b, true, s.alpha, b.value, dc, da.tensor, da.write);
    else
      launch<T>(tape.execution(), in_roles(groups, &P::c, &P::b, &P::a), false, !s.transpose_b, s.alpha, dc, b.value, da.tensor, da.write);
  });
}
void backward_b(Tape& tape, const ProductOperand& a, const ProductOperand& b, const Groups& groups, const ProductSettings& s,
                const Tensor& dc) {
  const GradientTarget db = target(tape, b);
  dispatch(dc.dtype(), [&]<class T>(T) {
    using P = ProductGroup;
    if (s.transpose_b)
      launch<T>(tape.execution(), in_roles(groups, &P::c, &P::a, &P::b), true, s.transpose_a, s.alpha, dc, a.value, db.tensor, db.write);
    else
      launch<T>(tape.execution(), in_roles(groups, &P::a, &P::c, &P::b), !s.transpose_a, false, s.alpha, a.value, dc, db.tensor, db.write);
  });
}

}  // namespace

Variable batched_product(Context& ctx, const ProductOperand& a, const ProductOperand& b, Shape of_c, Groups groups,
                         const ProductSettings& settings) {
  check_operand(ctx, "a", a);
  check_operand(ctx, "b", b);
  require(of_c.rank() == 2, "batched_product: the result has the shape {}, expected a matrix", of_c.text());
  check_groups(a, b, of_c, groups, settings);
  Variable c{Tensor(ctx.dtype, of_c)};
  const ProfileScope profile(ctx, "batched_product", [&] {
    return batched_product_work(a.value, b.value, c.value, products(groups, settings), int{records(ctx, a)} + int{records(ctx, b)});
  });
  dispatch(ctx.dtype, [&]<class T>(T) {
    launch<T>(ctx.on, groups, settings.transpose_a, settings.transpose_b, settings.alpha, a.value, b.value, c.value,
              kernels::Write::overwrite);
  });
  const bool to_a = records(ctx, a), to_b = records(ctx, b);
  if (to_a || to_b)
    c.node =
        ctx.tape->record("batched_product", [a, b, groups = std::move(groups), settings, to_a, to_b](Tape& tape, const Tensor& gradient) {
          if (to_a) backward_a(tape, a, b, groups, settings, gradient);
          if (to_b) backward_b(tape, a, b, groups, settings, gradient);
        });
  return c;
}

}  // namespace tapeformer::ops
