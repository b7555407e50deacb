// SPDX-License-Identifier: Apache-2.0
// Synthetic attention: checks, forward and backward.
#include "framework/ops/synthetic_attention.h"

#include <cmath>

#include "framework/kernels/synthetic_attention.h"
#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/gradient.h"
#include "framework/ops/probability_dropout.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {
namespace {

struct SyntheticStructure {
  const Packing* packing;
  int heads, head_dim;
  int64_t most = 0, inner = 0, outer = 0;
  double scale;
  ProbabilityDropout dropout;
};

template <class T>
View<const T> view(const Variable& x) {
  return matrix_or_empty<const T>(x.value);
}

int64_t columns_a_head(const Context& ctx, const char* name, const Variable& x, const Packing& packing, int heads) {
  if (!x.value.defined()) return 0;
  check_matrix(ctx, "synthetic_attention", name, x.value);
  check_rows("synthetic_attention", x.value, packing);
  require(x.value.shape()[1] % heads == 0, "synthetic_attention: {} has {} columns for {} heads", name, x.value.shape()[1], heads);
  return x.value.shape()[1] / heads;
}

SyntheticStructure structure(const Context& ctx, const SyntheticScores& x, const Variable& v, const Packing& packing, const AttentionSettings& s) {
  SyntheticStructure out{&packing, s.heads, static_cast<int>(columns_a_head(ctx, "v", v, packing, s.heads)), 0, 0, 0, s.scale, {ctx, s}};
  require(x.table.value.defined() || x.first.value.defined() || x.q.value.defined(), "synthetic_attention: no scores");
  if (x.table.value.defined()) {
    check_matrix(ctx, "synthetic_attention", "table", x.table.value);
    out.most = x.table.value.shape()[1];
    require(x.table.value.shape()[0] == s.heads * out.most && packing.longest() <= out.most,
            "synthetic_attention: a table {} for {} heads and sequences of up to {} rows", x.table.value.shape().text(), s.heads,
            packing.longest());
  }
  out.inner = columns_a_head(ctx, "first", x.first, packing, s.heads);
  out.outer = columns_a_head(ctx, "second", x.second, packing, s.heads);
  require(out.inner * out.outer >= (x.first.value.defined() ? packing.longest() : 0),
          "synthetic_attention: rows of {} and {} for sequences of up to {} rows", out.inner, out.outer, packing.longest());
  for (const Variable& qk : {x.q, x.k})
    require(x.q.value.defined() == qk.value.defined() &&
                (!qk.value.defined() || columns_a_head(ctx, "q or k", qk, packing, s.heads) == out.head_dim),
            "synthetic_attention: q and k stand together, as wide as v");
  return out;
}

template <class T>
kernels::SyntheticCall<T> call(const SyntheticStructure& s, const SyntheticScores& x, const Variable& v) {
  return {s.packing, s.heads,        s.head_dim,        s.most,  view<T>(x.table), s.inner, s.outer, view<T>(x.first), view<T>(x.second),
          s.scale,   view<T>(x.q),   view<T>(x.k),      view<T>(v), s.dropout.data(), s.dropout.draw, x.causal};
}

// 2 D FLOPs a pair and 5 for the softmax, 2 D more with queries and keys; 4 and 6 backward, 4 D more with them.
OpWork synthetic_work(const SyntheticStructure& s, const SyntheticScores& x, const Variable& v) {
  double pairs = 0;
  for (int b = 0; b < s.packing->sequences(); ++b) pairs += s.heads * std::pow(s.packing->length(b), 2) / (x.causal ? 2 : 1);
  const double d = s.head_dim, qk = x.q.value.defined() ? 1 : 0, bytes = bytes_of(x.table.value, x.first.value, x.second.value, x.q.value, x.k.value);
  return {{pairs * (2 * d * (1 + qk) + 6), bytes + 2 * bytes_of(v.value)}, {pairs * (4 * d + 6 * d * qk + 8), 2 * bytes + 3 * bytes_of(v.value)}};
}

}  // namespace

Variable synthetic_attention(Context& ctx, const SyntheticScores& x, const Variable& v, const Packing& packing,
                             const AttentionSettings& settings) {
  SyntheticStructure s = structure(ctx, x, v, packing, settings);
  const ProfileScope profile(ctx, "synthetic_attention", [&] { return synthetic_work(s, x, v); });
  Variable o{Tensor(ctx.dtype, v.value.shape())};
  dispatch(ctx.dtype, [&]<class T>(T) { kernels::launch<kernels::SyntheticForward, T>(ctx.on, call<T>(s, x, v), o.value.matrix<T>()); });
  bool wanted = false;
  for (const Variable& in : {x.table, x.first, x.second, x.q, x.k, v}) wanted = wanted || ctx.records(in);
  if (wanted)
    o.node = ctx.tape->record("synthetic_attention", [s = std::move(s), x, v](Tape& tape, const Tensor& gradient) {
      const auto target = [&](const Variable& of) { return cleared_target(tape, of.node, of.value.dtype(), of.value.shape()); };
      const Tensor table = target(x.table), first = target(x.first), second = target(x.second), q = target(x.q), k = target(x.k),
                   values = target(v);
      dispatch(gradient.dtype(), [&]<class T>(T) {
        const kernels::SyntheticGradients<T> to{matrix_or_empty<T>(table), matrix_or_empty<T>(first), matrix_or_empty<T>(second),
                                                matrix_or_empty<T>(q),     matrix_or_empty<T>(k),     matrix_or_empty<T>(values)};
        kernels::launch<kernels::SyntheticBackward, T>(tape.execution(), call<T>(s, x, v), gradient.matrix<const T>(), to);
      });
    });
  return o;
}

}  // namespace tapeformer::ops
