// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/feed_forward.h"

#include <optional>

#include "framework/kernels/cpu/blocks.h"
#include "framework/kernels/cpu/simd/feed_forward.h"
#include "framework/kernels/cpu/weight_gradient.h"

namespace tapeformer::kernels {

using cpu::rows_of;

namespace {

simd::FeedForwardRows call_of(const FeedForwardWeights<float>& w, View<const float> x, const FeedForwardSaved<float>& saved) {
  simd::FeedForwardRows call;
  call.C = static_cast<int>(x.columns);
  call.F = static_cast<int>(w.up.rows);
  call.gain = w.gain;
  call.shift = w.shift;
  call.epsilon = w.epsilon;
  call.activation = cpu::nonlinearity(w.activation);
  call.dropout_in = rows_of(w.dropout_in);
  call.dropout_out = rows_of(w.dropout_out);
  call.x = rows_of(x);
  call.u = rows_of(saved.u);
  call.mean = saved.mean;
  call.rstd = saved.rstd;
  call.up_bias = w.up_bias;
  call.down_bias = w.down_bias;
  return call;
}

}  // namespace

template <>
void FeedForwardForward<float>::cpu(const Execution& on, const FeedForwardWeights<float>& w, View<const float> x,
                                    View<const float> residual, View<float> y, FeedForwardSaved<float> saved) {
  simd::FeedForwardRows call = call_of(w, x, saved);
  call.residual = rows_of(residual);
  call.y = rows_of(y);
  cpu::Operand operands[] = {{w.up, true}, {w.down, true}};
  const Storage packed = cpu::pack(on, operands);
  call.up = operands[0].data;
  call.down = operands[1].data;
  const size_t scratch = simd::feed_forward_scratch(call, 1);
  const int64_t block = cpu::block_rows(x.rows, static_cast<int64_t>(scratch * sizeof(float)));
  parallel_blocks(*on.threads, x.rows, block, [&](int64_t first, int64_t last) {
    simd::feed_forward_rows(call, first, static_cast<int>(last - first), thread_scratch(static_cast<size_t>(block) * scratch));
  });
}

template <>
void FeedForwardBackward<float>::cpu(const Execution& on, const FeedForwardWeights<float>& w, View<const float> dy, View<const float> x,
                                     FeedForwardSaved<float> saved, View<float> dx, Write write, FeedForwardGradients<float> g) {
  if (x.rows == 0) return;
  simd::FeedForwardRows call = call_of(w, x, saved);
  call.dy = rows_of(dy);
  call.dx = rows_of(dx);
  call.add = write == Write::add;
  cpu::Operand operands[] = {{w.down, false}, {w.up, false}};
  const bool inner = dx.data || g.dgain || g.dshift;
  const Storage packed = cpu::pack(on, std::span(operands, inner ? 2 : 1));
  call.down = operands[0].data;
  call.up = operands[1].data;
  const bool apart = cpu::large_weights(int64_t{call.C} * call.F);
  std::optional<cpu::KeptRows> h, dz, a, du;
  if (apart) {
    call.h = rows_of(h.emplace(x.rows, call.C).view);
    call.dz = rows_of(dz.emplace(x.rows, call.C).view);
    call.a = rows_of(a.emplace(x.rows, call.F).view);
    call.du = rows_of(du.emplace(x.rows, call.F).view);
  }
  const simd::FeedForwardPart at(call.C, call.F, simd::panel_columns(), !apart);
  const Storage parts = cpu::run_segments(on, x.rows, at.size, simd::feed_forward_scratch(call, 1),
                                          [&](int64_t first, int count, float* part, bool add, float* memory) {
                                            simd::feed_forward_backward_rows(call, first, count, part, add, memory);
                                          });
  const View<float> none;
  const cpu::MatrixSum matrices[] = {{at.dup, apart ? none : g.dup}, {at.ddown, apart ? none : g.ddown}};
  const cpu::VectorSum vectors[] = {
      {at.dup_bias, g.dup_bias, call.F}, {at.ddown_bias, g.ddown_bias, call.C}, {at.dgain, g.dgain, call.C}, {at.dshift, g.dshift, call.C}};
  cpu::add_parts(on, reinterpret_cast<const float*>(parts.get()), at.size, cpu::segments_of(x.rows, at.size), matrices, vectors);
  if (!apart) return;
  if (g.dup.data) cpu::add_weight_gradient(on, du->view, h->view, g.dup);
  if (g.ddown.data) cpu::add_weight_gradient(on, dz->view, a->view, g.ddown);
}

}  // namespace tapeformer::kernels
