// SPDX-License-Identifier: Apache-2.0
// One row for each sequence of a packed batch: the mean, the maximum, or the first of its rows. A sequence without rows gives 0.
#pragma once
#include <vector>

#include "framework/core/device.h"
#include "framework/core/tensor.h"
#include "framework/kernels/write.h"

namespace tapeformer {
enum class Pooling : uint8_t { mean, max, first };
}

namespace tapeformer::kernels {

// x[T,C], offsets[B+1], y[B,C] overwritten. max: argmax[B,C] receives the row (the first of equals) and may be null otherwise.
template <class T>
struct PoolingForward {
  static void reference(const Execution&, Pooling, const std::vector<int32_t>& offsets, View<const T> x, View<T> y, int32_t* argmax);
  static void cpu(const Execution&, Pooling, const std::vector<int32_t>& offsets, View<const T> x, View<T> y, int32_t* argmax);
};

// dx[T,C] overwritten.
template <class T>
struct PoolingBackward {
  static void reference(const Execution&, Pooling, const std::vector<int32_t>& offsets, View<const T> dy, const int32_t* argmax,
                        View<T> dx);
  static void cpu(const Execution&, Pooling, const std::vector<int32_t>& offsets, View<const T> dy, const int32_t* argmax, View<T> dx);
};

}  // namespace tapeformer::kernels
