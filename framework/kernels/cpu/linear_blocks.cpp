// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/cpu/linear_blocks.h"

#include <optional>

#include "framework/kernels/cpu/weight_gradient.h"

namespace tapeformer::kernels::cpu {

void linear_forward(const Execution& on, simd::LinearRows call, View<const float> w, int64_t rows) {
  Operand operand{w, true};
  const Storage packed = pack(on, {&operand, 1});
  call.panels = operand.data;
  const size_t scratch = simd::linear_scratch(call, 1);
  const int64_t block = block_rows(rows, static_cast<int64_t>(scratch * sizeof(float)));
  parallel_blocks(*on.threads, rows, block, [&](int64_t first, int64_t last) {
    simd::linear_rows(call, first, static_cast<int>(last - first), thread_scratch(static_cast<size_t>(block) * scratch));
  });
}

void linear_backward(const Execution& on, simd::LinearBackwardRows call, View<const float> w, int64_t rows, const LinearGradients& g) {
  if (rows == 0) return;
  Operand operand{w, false};
  Storage packed;
  if (call.dx || g.dgain || g.dshift) {
    packed = pack(on, {&operand, 1});
    call.panels = operand.data;
  }
  if (!call.gain && !g.dw.data && !g.dbias) {
    call.x = {};
    const size_t scratch = simd::linear_backward_scratch(call, 1);
    const int64_t block = block_rows(rows, static_cast<int64_t>(scratch * sizeof(float)));
    parallel_blocks(*on.threads, rows, block, [&](int64_t first, int64_t last) {
      simd::linear_backward_rows(call, first, static_cast<int>(last - first), nullptr, false,
                                 thread_scratch(static_cast<size_t>(block) * scratch));
    });
    return;
  }
  const bool apart = large_weights(int64_t{call.K} * call.N);
  std::optional<KeptRows> dz, h;
  if (apart) {
    call.dz = rows_of(dz.emplace(rows, call.N).view);
    call.h = rows_of(h.emplace(rows, call.K).view);
  }
  const simd::LinearPart at(call.K, call.N, simd::panel_columns(), !apart);
  const Storage parts = run_segments(on, rows, at.size, simd::linear_backward_scratch(call, 1),
                                     [&](int64_t first, int count, float* part, bool add, float* memory) {
                                       simd::linear_backward_rows(call, first, count, part, add, memory);
                                     });
  const MatrixSum matrices[] = {{at.dw, apart ? View<float>{} : g.dw}};
  const VectorSum vectors[] = {{at.dbias, g.dbias, call.N}, {at.dgain, g.dgain, call.K}, {at.dshift, g.dshift, call.K}};
  add_parts(on, reinterpret_cast<const float*>(parts.get()), at.size, segments_of(rows, at.size), matrices, vectors);
  if (apart && g.dw.data) add_weight_gradient(on, dz->view, h->view, g.dw);
}

}  // namespace tapeformer::kernels::cpu
