// SPDX-License-Identifier: Apache-2.0
// LayerNorm of x again from the saved mean and reciprocal deviation: what the backward of the fused kernels starts from.
#pragma once
#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels::reference {

template <class T>
void normalized(View<const T> x, const T* gain, const T* shift, const T* mean, const T* rstd, View<T> y) {
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < x.columns; ++c)
      y.row(r)[c] = static_cast<T>((static_cast<double>(x.row(r)[c]) - mean[r]) * rstd[r] * gain[c] + shift[c]);
}

}  // namespace tapeformer::kernels::reference
