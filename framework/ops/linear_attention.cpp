// SPDX-License-Identifier: Apache-2.0
// Linear attention: forward and backward.
#include "framework/ops/attention.h"

#include "framework/kernels/linear_attention.h"
#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/projections.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {
namespace {

template <class T>
kernels::LinearAttentionCall<T> call(const Projections& x, const Packing& packing, int heads, double epsilon) {
  return {&packing,
          heads,
          static_cast<int>(x.q.shape()[1] / heads),
          epsilon,
          x.q.matrix<const T>(),
          x.k.matrix<const T>(),
          x.v.matrix<const T>()};
}

Variable attend(Context& ctx, const Projections& x, const ProjectionNodes& nodes, const Packing& packing, int heads, double epsilon) {
  check_projections(ctx, "linear_attention", x, packing, packing, heads);
  const int64_t head_dim = x.q.shape()[1] / heads;
  const ProfileScope profile(ctx, "linear_attention", [&] { return linear_attention_work(x.q, head_dim); });
  Variable o{Tensor(ctx.dtype, x.q.shape())};
  const Tensor state(ctx.dtype, {packing.sequences(), heads, head_dim, head_dim + 1}), denominator(ctx.dtype, {heads, packing.rows()});
  dispatch(ctx.dtype, [&]<class T>(T) {
    kernels::launch<kernels::LinearAttentionForward, T>(ctx.on, call<T>(x, packing, heads, epsilon), o.value.matrix<T>(), state.data<T>(),
                                                        denominator.data<T>());
  });
  // With n_i = do_i / den_i and e_i = -<do_i, o_i> / den_i: df(q_i) = S n_i + e_i z, dS = sum f(q_i) n_i', dz = sum e_i f(q_i),
  // df(k_j) = dS v_j + dz, dv_j = dS' f(k_j) (Katharopoulos et al. 2020, 2006.16236, differentiated with its denominator).
  if (ctx.tape && nodes.any())
    o.node = ctx.tape->record(
        "linear_attention", [x, nodes, &packing, heads, epsilon, o = o.value, state, denominator](Tape& tape, const Tensor& gradient) {
          const ProjectionGradients d(x, nodes);
          dispatch(gradient.dtype(), [&]<class T>(T) {
            kernels::launch<kernels::LinearAttentionBackward, T>(tape.execution(), call<T>(x, packing, heads, epsilon), o.matrix<const T>(),
                                                                 state.data<T>(), denominator.data<T>(), gradient.matrix<const T>(),
                                                                 d.parts.q.matrix<T>(), d.parts.k.matrix<T>(), d.parts.v.matrix<T>());
          });
          d.hand_over(tape, nodes);
        });
  return o;
}

}  // namespace

Variable linear_attention(Context& ctx, const Variable& q, const Variable& k, const Variable& v, const Packing& packing, int heads,
                          double epsilon) {
  return attend(ctx, {q.value, k.value, v.value}, {q.node, k.node, v.node, no_node}, packing, heads, epsilon);
}

Variable linear_attention(Context& ctx, const Variable& qkv, const Packing& packing, int heads, double epsilon) {
  return attend(ctx, split(ctx, "linear_attention", qkv.value), {no_node, no_node, no_node, qkv.node}, packing, heads, epsilon);
}

}  // namespace tapeformer::ops
