// SPDX-License-Identifier: Apache-2.0
// Views of q, k and v, and of their gradients.
#include "framework/ops/projections.h"

#include "framework/ops/check.h"

namespace tapeformer::ops {
namespace {

Projections thirds(const Tensor& whole) {
  const int64_t columns = whole.shape()[1] / 3;
  return {whole.columns(0, columns), whole.columns(columns, columns), whole.columns(2 * columns, columns)};
}

}  // namespace

Projections split(const Context& ctx, std::string_view op, const Tensor& qkv) {
  check_matrix(ctx, op, "qkv", qkv);
  require(qkv.shape()[1] % 3 == 0, "{}: {} columns of qkv are not three equal parts", op, qkv.shape()[1]);
  return thirds(qkv);
}

void check_projections(const Context& ctx, std::string_view op, const Projections& x, const Packing& queries, const Packing& keys,
                       int heads) {
  check_matrix(ctx, op, "q", x.q);
  check_rows(op, x.q, queries);
  const int64_t columns = x.q.shape()[1];
  check_tensor(op, "k", x.k, ctx.dtype, {keys.rows(), columns});
  check_tensor(op, "v", x.v, ctx.dtype, {keys.rows(), columns});
  require(heads >= 1 && columns >= heads && columns % heads == 0, "{}: {} columns do not divide into {} heads", op, columns, heads);
}

ProjectionGradients::ProjectionGradients(const Projections& x, const ProjectionNodes& nodes) {
  const Dtype dtype = x.q.dtype();
  if (nodes.qkv != no_node) {
    whole = Tensor(dtype, {x.q.shape()[0], 3 * x.q.shape()[1]});
    parts = thirds(whole);
  } else {
    parts = {Tensor(dtype, x.q.shape()), Tensor(dtype, x.k.shape()), Tensor(dtype, x.v.shape())};
  }
}

void ProjectionGradients::hand_over(Tape& tape, const ProjectionNodes& nodes) const {
  if (nodes.qkv != no_node) return tape.add_gradient(nodes.qkv, whole);
  tape.add_gradient(nodes.q, parts.q);
  tape.add_gradient(nodes.k, parts.k);
  tape.add_gradient(nodes.v, parts.v);
}

}  // namespace tapeformer::ops
