// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/dropout.h"

#include "framework/kernels/cpu/blocks.h"
#include "framework/kernels/cpu/simd/row_passes.h"

namespace tapeformer::kernels {

using cpu::rows_of;

template <>
void Dropout<float>::cpu(const Execution& on, const DropoutDraw& draw, View<const float> x, View<float> y, Write write) {
  const simd::DropoutRows p = rows_of(draw);
  parallel_blocks(*on.threads, x.rows, cpu::pass_rows(x.columns), [&](int64_t first, int64_t last) {
    simd::dropout_rows(p, rows_of(x), static_cast<int>(x.columns), write == Write::add, first, last, rows_of(y));
  });
}

}  // namespace tapeformer::kernels
