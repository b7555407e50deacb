// SPDX-License-Identifier: Apache-2.0
// Linear attention on feature maps: checks, forward and backward.
#include "framework/ops/feature_attention.h"

#include <algorithm>

#include "framework/kernels/causal_feature_attention.h"
#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/gradient.h"
#include "framework/ops/projections.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {
namespace {

constexpr const char* op = "feature_attention";

// All that a call needs besides q, k, v and the matrix; kept by the closure.
struct FeatureStructure {
  const Packing* packing;
  FeatureAttentionSettings settings;
  int input_dim, features, head_dim;
  FeatureShifts shifts;
  int rows() const { return matrix_rows(settings.map, features); }
};

FeatureStructure structure(const Context& ctx, const Projections& x, const Tensor& matrix, const Packing& packing,
                           const FeatureAttentionSettings& s) {
  check_matrix(ctx, op, "q", x.q);
  check_tensor(op, "k", x.k, ctx.dtype, x.q.shape());
  check_matrix(ctx, op, "v", x.v);
  for (const Tensor* t : {&x.q, &x.v}) {
    check_rows(op, *t, packing);
    const int64_t columns = t->shape()[1];
    require(s.heads >= 1 && columns >= s.heads && columns % s.heads == 0, "{}: {} columns do not divide into {} heads", op, columns,
            s.heads);
  }
  FeatureStructure out{&packing, s, static_cast<int>(x.q.shape()[1] / s.heads), s.features, static_cast<int>(x.v.shape()[1] / s.heads), {}};
  if (s.map == FeatureMap::given || s.map == FeatureMap::softmax || s.map == FeatureMap::elu) out.features = out.input_dim;
  if (s.map == FeatureMap::cosine) {
    out.features = 2 * out.input_dim;
    require(s.lengths.size() == static_cast<size_t>(packing.sequences()), "{}: {} length constants for {} sequences", op, s.lengths.size(),
            packing.sequences());
    for (int b = 0; b < packing.sequences(); ++b)
      require(s.lengths[static_cast<size_t>(b)] >= packing.length(b), "{}: the length constant {} of sequence {} is below its length {}",
              op, s.lengths[static_cast<size_t>(b)], b, packing.length(b));
  }
  require(!s.causal || s.map != FeatureMap::softmax || s.denominator == Denominator::none,
          "{}: causal columns' softmaxes have sums of their own, and no denominator", op);
  require(out.features >= 1, "{}: {} features", op, out.features);
  const bool pairs = s.map == FeatureMap::hyperbolic || s.map == FeatureMap::trigonometric;
  require(!pairs || out.features % 2 == 0, "{}: {} features, but the map makes them in pairs", op, out.features);
  if (out.rows() > 0) {
    check_tensor(op, "matrix", matrix, ctx.dtype, {int64_t{s.heads} * out.rows(), out.input_dim});
    require(matrix.contiguous(), "{}: the matrix is strided", op);
  }
  return out;
}

void add_shifts(const Context& ctx, FeatureStructure& s, const FeatureShifts* given) {
  const Shape query{s.settings.heads, s.packing->rows()};
  const int own = std::max(1, kernels::shifts_per_key(s.settings.map, s.features));
  const Shape key =
      s.settings.causal ? Shape{s.settings.heads, s.packing->rows(), own} : Shape{s.packing->sequences(), s.settings.heads, s.features};
  if (!given) {
    s.shifts = {Tensor(ctx.dtype, query), Tensor(ctx.dtype, key)};
    return;
  }
  check_tensor(op, "the queries' shifts", given->query, ctx.dtype, query);
  check_tensor(op, "the keys' shifts", given->key, ctx.dtype, key);
  s.shifts = *given;
}

template <class T>
kernels::FeatureAttentionCall<T> call(const FeatureStructure& s, const Projections& x, const Tensor& matrix, bool shifts_given) {
  kernels::FeatureAttentionCall<T> out;
  out.packing = s.packing;
  out.heads = s.settings.heads;
  out.input_dim = s.input_dim;
  out.features = s.features;
  out.head_dim = s.head_dim;
  out.map = s.settings.map;
  out.offset = s.settings.offset;
  out.denominator = s.settings.denominator;
  out.epsilon = s.settings.epsilon;
  out.matrix = s.rows() > 0 ? matrix.data<T>() : nullptr;
  out.lengths = s.settings.lengths.empty() ? nullptr : s.settings.lengths.data();
  out.q = x.q.matrix<const T>();
  out.k = x.k.matrix<const T>();
  out.v = x.v.matrix<const T>();
  out.query_shift = s.shifts.query.data<T>();
  out.key_shift = s.shifts.key.data<T>();
  out.shifts_given = shifts_given;
  return out;
}

// What the forward keeps for the backward besides the shifts.
struct Kept {
  Tensor state, denominator;
  Kept(const Context& ctx, const FeatureStructure& s)
      : state(ctx.dtype, s.settings.causal ? Shape{kernels::feature_chunks(*s.packing), s.settings.heads, s.features + 1, s.head_dim + 1}
                                           : Shape{s.packing->sequences(), s.settings.heads, s.features, s.head_dim + 1}),
        denominator(ctx.dtype, {s.settings.heads, s.packing->rows()}) {}
};

// Calls one of two kernels with the same arguments.
template <template <class> class Whole, template <class> class Causal, class T, class... Arguments>
void launch_either(const Execution& on, bool causal, const Arguments&... arguments) {
  if (causal) kernels::launch<Causal, T>(on, arguments...);
  else kernels::launch<Whole, T>(on, arguments...);
}

void run_forward(const Context& ctx, const FeatureStructure& s, const Projections& x, const Tensor& matrix, bool given, const Tensor& o,
                 const Kept& kept) {
  dispatch(ctx.dtype, [&]<class T>(T) {
    launch_either<kernels::FeatureAttentionForward, kernels::CausalFeatureAttentionForward, T>(
        ctx.on, s.settings.causal, call<T>(s, x, matrix, given), o.matrix<T>(), kept.state.data<T>(), kept.denominator.data<T>());
  });
}

Variable attend(Context& ctx, const Projections& x, const ProjectionNodes& nodes, const Variable& matrix, const Packing& packing,
                const FeatureAttentionSettings& settings, const FeatureShifts* given) {
  FeatureStructure s = structure(ctx, x, matrix.value, packing, settings);
  add_shifts(ctx, s, given);
  const ProfileScope profile(ctx, op, [&] { return feature_attention_work(x.q, x.v, settings.heads, s.features, s.rows()); });
  Variable o{Tensor(ctx.dtype, x.v.shape())};
  const Kept kept(ctx, s);
  run_forward(ctx, s, x, matrix.value, given != nullptr, o.value, kept);
  const bool to_matrix = s.rows() > 0 && ctx.records(matrix);
  // The rules are with the kernel; features are made again there.
  if (ctx.tape && (nodes.any() || to_matrix))
    o.node = ctx.tape->record(op, [x, nodes, matrix, to_matrix, s = std::move(s), o = o.value, kept](Tape& tape, const Tensor& gradient) {
      const ProjectionGradients d(x, nodes);
      const Tensor d_matrix = to_matrix ? cleared_target(tape, matrix.node, matrix.value.dtype(), matrix.value.shape()) : Tensor();
      dispatch(gradient.dtype(), [&]<class T>(T) {
        launch_either<kernels::FeatureAttentionBackward, kernels::CausalFeatureAttentionBackward, T>(
            tape.execution(), s.settings.causal, call<T>(s, x, matrix.value, true), o.matrix<const T>(), kept.state.data<T>(),
            kept.denominator.data<T>(), gradient.matrix<const T>(), d.parts.q.matrix<T>(), d.parts.k.matrix<T>(), d.parts.v.matrix<T>(),
            data_or_null<T>(d_matrix));
      });
      d.hand_over(tape, nodes);
    });
  return o;
}

}  // namespace

Variable feature_attention(Context& ctx, const Variable& q, const Variable& k, const Variable& v, const Variable& matrix,
                           const Packing& packing, const FeatureAttentionSettings& settings, const FeatureShifts* shifts) {
  return attend(ctx, {q.value, k.value, v.value}, {q.node, k.node, v.node, no_node}, matrix, packing, settings, shifts);
}

Variable feature_attention(Context& ctx, const Variable& qkv, const Variable& matrix, const Packing& packing,
                           const FeatureAttentionSettings& settings, const FeatureShifts* shifts) {
  return attend(ctx, split(ctx, op, qkv.value), {no_node, no_node, no_node, qkv.node}, matrix, packing, settings, shifts);
}

FeatureShifts feature_shifts(Context& ctx, const Tensor& qkv, const Tensor& matrix, const Packing& packing,
                             const FeatureAttentionSettings& settings) {
  const Projections x = split(ctx, op, qkv);
  FeatureStructure s = structure(ctx, x, matrix, packing, settings);
  add_shifts(ctx, s, nullptr);
  run_forward(ctx, s, x, matrix, false, Tensor(ctx.dtype, x.v.shape()), Kept(ctx, s));
  return s.shifts;
}

}  // namespace tapeformer::ops
