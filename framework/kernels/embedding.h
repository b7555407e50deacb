// SPDX-License-Identifier: Apache-2.0
// Rows of a table by index: token embeddings, learned positions.
#pragma once
#include "framework/core/device.h"
#include "framework/core/tensor.h"
#include "framework/kernels/write.h"

namespace tapeformer::kernels {

// y[T,C] (+)= table[index[t]]; indices are checked by the op.
template <class T>
struct EmbeddingForward {
  static void reference(const Execution&, const int32_t* index, View<const T> table, View<T> y, Write);
  static void cpu(const Execution&, const int32_t* index, View<const T> table, View<T> y, Write);
};

// dtable[index[t]] += dy[t], in the order of t for each row of the table: deterministic for any number of threads.
template <class T>
struct EmbeddingBackward {
  static void reference(const Execution&, const int32_t* index, View<const T> dy, View<T> dtable);
  static void cpu(const Execution&, const int32_t* index, View<const T> dy, View<T> dtable);
};

}  // namespace tapeformer::kernels
