// SPDX-License-Identifier: Apache-2.0
// Softmax attention: checks, the keys of its dropout, forward and backward.
#include "framework/ops/attention.h"

#include <vector>

#include "framework/core/random.h"
#include "framework/kernels/attention.h"
#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/gradient.h"
#include "framework/ops/projections.h"

namespace tapeformer::ops {
namespace {

// All that a call needs besides q, k, v; kept by the closure.
struct Structure {
  const Packing* packing;
  AttentionPart held;
  std::vector<const TilePlan*> plans;
  int heads, head_dim;
  double scale;
  std::vector<uint64_t> dropout_keys;
  DropoutDraw dropout;
};

Structure structure(const Context& ctx, const Projections& x, const Packing& packing, const AttentionPart& plans,
                    const AttentionSettings& s) {
  check_projections(ctx, "attention", x, packing, s.heads);
  require(plans.size() == static_cast<size_t>(packing.sequences()), "attention: {} plans for {} sequences", plans.size(),
          packing.sequences());
  for (int b = 0; b < packing.sequences(); ++b) {
    const TilePlan* plan = plans[static_cast<size_t>(b)].get();
    require(plan && plan->queries == packing.length(b) && plan->keys == packing.length(b),
            "attention: the plan of sequence {} has {} queries and {} keys, its length is {}", b, plan ? plan->queries : 0,
            plan ? plan->keys : 0, packing.length(b));
  }
  Structure out{&packing, plans, {}, s.heads, static_cast<int>(x.q.shape()[1] / s.heads), s.scale, {}, {}};
  for (const PlanPointer& plan : plans) out.plans.push_back(plan.get());
  if (!ctx.draws_dropout(s.dropout)) return out;
  out.dropout.threshold = dropout_threshold(s.dropout);
  out.dropout.scale = 1 / (1 - s.dropout);
  out.dropout.step = ctx.step;
  for (int h = 0; h < s.heads; ++h) out.dropout_keys.push_back(random_key(ctx.seed, "attention_dropout", s.name, h));
  return out;
}

template <class T>
kernels::AttentionCall<T> call(const Structure& s, const Projections& x) {
  return {s.packing,
          s.plans.data(),
          s.heads,
          s.head_dim,
          s.scale,
          x.q.matrix<const T>(),
          x.k.matrix<const T>(),
          x.v.matrix<const T>(),
          s.dropout_keys.empty() ? nullptr : s.dropout_keys.data(),
          s.dropout};
}

// `sources` are the variables that get gradients: q, k, v or the one array that holds them.
Variable attend(Context& ctx, const Projections& x, const ProjectionNodes& nodes, Structure s) {
  Variable o{Tensor(ctx.dtype, x.q.shape())};
  const Tensor lse(ctx.dtype, {s.heads, s.packing->rows()});
  dispatch(ctx.dtype,
           [&]<class T>(T) { kernels::launch<kernels::AttentionForward, T>(ctx.on, call<T>(s, x), o.value.matrix<T>(), lse.data<T>()); });
  // With P = exp(S - L), M the dropout factors, delta_i = <do_i, o_i>: dP = (dO V') M, dS = P (dP - delta), dV = (P M)' dO,
  // dQ = scale dS K, dK = scale dS' Q (Dao et al. 2022, 2205.14135, appendix B).
  if (ctx.tape && nodes.any())
    o.node = ctx.tape->record("attention", [x, nodes, s = std::move(s), o = o.value, lse](Tape& tape, const Tensor& gradient) {
      const ProjectionGradients d(x, nodes);
      dispatch(gradient.dtype(), [&]<class T>(T) {
        kernels::launch<kernels::AttentionBackward, T>(tape.execution(), call<T>(s, x), o.matrix<const T>(), lse.data<T>(),
                                                       gradient.matrix<const T>(), d.parts.q.matrix<T>(), d.parts.k.matrix<T>(),
                                                       d.parts.v.matrix<T>());
      });
      d.hand_over(tape, nodes);
    });
  return o;
}

}  // namespace

Variable attention(Context& ctx, const Variable& q, const Variable& k, const Variable& v, const Packing& packing,
                   const AttentionPart& plans, const AttentionSettings& settings) {
  const Projections x{q.value, k.value, v.value};
  return attend(ctx, x, {q.node, k.node, v.node, no_node}, structure(ctx, x, packing, plans, settings));
}

Variable attention(Context& ctx, const Variable& qkv, const Packing& packing, const AttentionPart& plans, const AttentionSettings& settings) {
  const Projections x = split(ctx, "attention", qkv.value);
  return attend(ctx, x, {no_node, no_node, no_node, qkv.node}, structure(ctx, x, packing, plans, settings));
}

}  // namespace tapeformer::ops
