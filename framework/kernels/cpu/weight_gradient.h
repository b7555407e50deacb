// SPDX-License-Identifier: Apache-2.0
// Weight gradients too large for partial sums by blocks of rows: what the backward passes of linear layers and the feed-forward share.
#pragma once
#include "framework/core/device.h"
#include "framework/core/tensor.h"

namespace tapeformer::kernels::cpu {

// Whether the gradients of weights of so many floats are formed by add_weight_gradient, from arrays that the pass over rows leaves behind.
bool large_weights(int64_t floats);

// Memory for rows whose width is padded: rows 2 KiB apart, or a multiple of that, share few cache sets.
struct KeptRows {
  KeptRows(int64_t rows, int64_t columns);
  Storage memory;
  View<float> view;
};

// dw[M,N] += x' y with x[rows,M], y[rows,N]. The same bytes for any number of threads.
void add_weight_gradient(const Execution& on, View<const float> x, View<const float> y, View<float> dw);

}  // namespace tapeformer::kernels::cpu
