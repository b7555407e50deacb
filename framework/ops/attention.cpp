// SPDX-License-Identifier: Apache-2.0
// Softmax attention: forward and backward.
#include "framework/ops/attention.h"

#include <vector>

#include "framework/kernels/attention.h"
#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/gradient.h"
#include "framework/ops/probability_dropout.h"
#include "framework/ops/projections.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {
namespace {

// All that a call needs besides q, k, v; kept by the closure.
struct Structure {
  const Packing *queries, *keys;
  std::vector<AttentionPart> parts;
  int heads, head_dim;
  double scale;
  ProbabilityDropout dropout;
};

// Holds the plans against the sequences: the kernels write the rows that they name from several threads.
class PlanCheck {
 public:
  PlanCheck(const Packing& queries, const Packing& keys, int heads)
      : queries_(queries), keys_(keys), heads_(heads), seen_(static_cast<size_t>(std::max(queries.longest(), keys.longest()))) {}

  void part(const AttentionPart& plans) {
    const auto b = static_cast<size_t>(queries_.sequences());
    require(plans.size() == b || plans.size() == b * static_cast<size_t>(heads_), "attention: {} plans for {} sequences of {} heads",
            plans.size(), b, heads_);
    for (size_t p = 0; p < plans.size(); ++p) {
      const int sequence = static_cast<int>(plans.size() == b ? p : p / static_cast<size_t>(heads_));
      const TilePlan* plan = plans[p].get();
      require(plan, "attention: sequence {} has no plan", sequence);
      rows("queries", sequence, plan->queries, plan->query_rows, queries_.length(sequence));
      rows("keys", sequence, plan->keys, plan->key_rows, keys_.length(sequence));
      places("queries", sequence, plan->queries, plan->query_places);
      places("keys", sequence, plan->keys, plan->key_places);
    }
  }

 private:
  void places(const char* side, int sequence, int32_t count, const std::vector<int32_t>& list) {
    require(list.empty() || static_cast<int32_t>(list.size()) == count, "attention: the plan of sequence {} has {} {} and {} places",
            sequence, count, side, list.size());
  }
  void rows(const char* side, int sequence, int32_t count, const std::vector<int32_t>& list, int32_t length) {
    if (list.empty()) {
      require(count == length || count == 0, "attention: the plan of sequence {} has {} {}, its length is {}", sequence, count, side,
              length);
      return;
    }
    require(static_cast<int32_t>(list.size()) == count, "attention: the plan of sequence {} has {} {} and lists {} rows", sequence, count,
            side, list.size());
    ++mark_;
    for (const int32_t row : list) {
      require(row >= 0 && row < length, "attention: the plan of sequence {} lists row {} of {}, its length is {}", sequence, row, side,
              length);
      require(seen_[static_cast<size_t>(row)] != mark_, "attention: the plan of sequence {} lists row {} of {} twice", sequence, row, side);
      seen_[static_cast<size_t>(row)] = mark_;
    }
  }

  const Packing &queries_, &keys_;
  int heads_;
  std::vector<int64_t> seen_;  // the last list that named a row
  int64_t mark_ = 0;
};

Structure structure(const Context& ctx, const Projections& x, const Packing& queries, const Packing& keys,
                    std::span<const AttentionPart> parts, const AttentionSettings& s) {
  check_projections(ctx, "attention", x, queries, keys, s.heads);
  require(queries.sequences() == keys.sequences(), "attention: {} sequences of queries and {} of keys", queries.sequences(),
          keys.sequences());
  require(!parts.empty(), "attention: no part was given");
  PlanCheck check(queries, keys, s.heads);
  for (const AttentionPart& part : parts) check.part(part);
  return {&queries, &keys, {parts.begin(), parts.end()}, s.heads, static_cast<int>(x.q.shape()[1] / s.heads), s.scale, {ctx, s}};
}

// Of all heads.
double pairs(const Structure& s) {
  double sum = 0;
  for (const AttentionPart& part : s.parts)
    for (const PlanPointer& plan : part)
      sum += static_cast<double>(plan->pairs) * (part.size() == static_cast<size_t>(s.queries->sequences()) ? s.heads : 1);
  return sum;
}

template <class T>
kernels::AttentionCall<T> call(const Structure& s, const AttentionPart& part, const Projections& x) {
  return {s.queries,
          s.keys,
          part,
          s.heads,
          s.head_dim,
          s.scale,
          x.q.matrix<const T>(),
          x.k.matrix<const T>(),
          x.v.matrix<const T>(),
          s.dropout.data(),
          s.dropout.draw};
}

// `sources` are the variables that get gradients: q, k, v or the one array that holds them.
Variable attend(Context& ctx, const Projections& x, const ProjectionNodes& nodes, Structure s) {
  const ProfileScope profile(ctx, "attention", [&] { return attention_work(x.q, x.k, pairs(s), s.head_dim); });
  Variable o{Tensor(ctx.dtype, x.q.shape())};
  const Tensor lse(ctx.dtype, {s.heads, s.queries->rows()});
  // Disjoint parts merge by their log-sum-exp: L = log sum of exp(L_p), o = sum of exp(L_p - L) o_p.
  dispatch(ctx.dtype, [&]<class T>(T) {
    kernels::Write write = kernels::Write::overwrite;
    for (const AttentionPart& part : s.parts) {
      kernels::launch<kernels::AttentionForward, T>(ctx.on, call<T>(s, part, x), o.value.matrix<T>(), lse.data<T>(), write);
      write = kernels::Write::add;
    }
  });
  // With P = exp(S - L), M the dropout factors, delta_i = <do_i, o_i>: dP = (dO V') M, dS = P (dP - delta), dV = (P M)' dO,
  // dQ = scale dS K, dK = scale dS' Q (Dao et al. 2022, 2205.14135, appendix B). It holds for each part with the merged L and o.
  if (ctx.tape && nodes.any())
    o.node = ctx.tape->record("attention", [x, nodes, s = std::move(s), o = o.value, lse](Tape& tape, const Tensor& gradient) {
      const ProjectionGradients d(x, nodes);
      dispatch(gradient.dtype(), [&]<class T>(T) {
        kernels::Write write = kernels::Write::overwrite;
        for (const AttentionPart& part : s.parts) {
          kernels::launch<kernels::AttentionBackward, T>(tape.execution(), call<T>(s, part, x), o.matrix<const T>(), lse.data<T>(),
                                                         gradient.matrix<const T>(), d.parts.q.matrix<T>(), d.parts.k.matrix<T>(),
                                                         d.parts.v.matrix<T>(), write);
          write = kernels::Write::add;
        }
      });
      d.hand_over(tape, nodes);
    });
  return o;
}

}  // namespace

Variable attention(Context& ctx, const Variable& q, const Variable& k, const Variable& v, const Packing& packing,
                   std::span<const AttentionPart> parts, const AttentionSettings& settings) {
  const Projections x{q.value, k.value, v.value};
  return attend(ctx, x, {q.node, k.node, v.node, no_node}, structure(ctx, x, packing, packing, parts, settings));
}

Variable attention(Context& ctx, const Variable& qkv, const Packing& packing, std::span<const AttentionPart> parts,
                   const AttentionSettings& settings) {
  const Projections x = split(ctx, "attention", qkv.value);
  return attend(ctx, x, {no_node, no_node, no_node, qkv.node}, structure(ctx, x, packing, packing, parts, settings));
}

Variable attention(Context& ctx, const Variable& q, const Variable& k, const Variable& v, const Packing& packing, const AttentionPart& part,
                   const AttentionSettings& settings) {
  return attention(ctx, q, k, v, packing, std::span(&part, 1), settings);
}

Variable attention(Context& ctx, const Variable& qkv, const Packing& packing, const AttentionPart& part,
                   const AttentionSettings& settings) {
  return attention(ctx, qkv, packing, std::span(&part, 1), settings);
}

Variable cross_attention(Context& ctx, const Variable& q, const Variable& k, const Variable& v, const Packing& queries, const Packing& keys,
                         const AttentionPart& part, const AttentionSettings& settings) {
  const Projections x{q.value, k.value, v.value};
  return attend(ctx, x, {q.node, k.node, v.node, no_node}, structure(ctx, x, queries, keys, std::span(&part, 1), settings));
}

}  // namespace tapeformer::ops
