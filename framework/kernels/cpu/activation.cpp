// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/activation.h"

#include "framework/kernels/cpu/blocks.h"
#include "framework/kernels/cpu/simd/row_passes.h"

namespace tapeformer::kernels {

using cpu::rows_of;

template <>
void ActivationForward<float>::cpu(const Execution& on, Activation f, View<const float> x, View<float> y) {
  parallel_blocks(*on.threads, x.rows, cpu::pass_rows(x.columns), [&](int64_t first, int64_t last) {
    simd::activation_rows(cpu::nonlinearity(f), rows_of(x), static_cast<int>(x.columns), first, last, rows_of(y));
  });
}

template <>
void ActivationBackward<float>::cpu(const Execution& on, Activation f, View<const float> x, View<const float> dy, View<float> dx) {
  parallel_blocks(*on.threads, x.rows, cpu::pass_rows(x.columns), [&](int64_t first, int64_t last) {
    simd::activation_backward_rows(cpu::nonlinearity(f), rows_of(x), rows_of(dy), static_cast<int>(x.columns), first, last, rows_of(dx));
  });
}

}  // namespace tapeformer::kernels
