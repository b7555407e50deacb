// SPDX-License-Identifier: Apache-2.0
// Softmax inside blocks of a matrix, along their rows or down their columns.
#pragma once
#include <span>

#include "framework/kernels/batched_product.h"

namespace tapeformer {

enum class Axis : uint8_t { rows, columns };  // each row, or each column, of a block sums to one

namespace kernels {

// y = exp(x - max) / sum in the blocks, which do not overlap, and 0 elsewhere.
template <class T>
struct BlockSoftmaxForward {
  static void reference(const Execution&, std::span<const Block> blocks, Axis, View<const T> x, View<T> y);
  static void cpu(const Execution&, std::span<const Block> blocks, Axis, View<const T> x, View<T> y);
};

// dx (+)= y (dy - sum(dy y)) in the blocks, (+)= 0 elsewhere.
template <class T>
struct BlockSoftmaxBackward {
  static void reference(const Execution&, std::span<const Block> blocks, Axis, View<const T> dy, View<const T> y, View<T> dx, Write);
  static void cpu(const Execution&, std::span<const Block> blocks, Axis, View<const T> dy, View<const T> y, View<T> dx, Write);
};

}  // namespace kernels
}  // namespace tapeformer
