// SPDX-License-Identifier: Apache-2.0
// Softmax over the columns of each row.
#pragma once
#include "framework/core/device.h"
#include "framework/core/tensor.h"
#include "framework/kernels/write.h"

namespace tapeformer::kernels {

// y = exp(x - max) / sum, overwritten.
template <class T>
struct SoftmaxForward {
  static void reference(const Execution&, View<const T> x, View<T> y);
  static void cpu(const Execution&, View<const T> x, View<T> y);
};

// dx (+)= y (dy - sum(dy y)).
template <class T>
struct SoftmaxBackward {
  static void reference(const Execution&, View<const T> dy, View<const T> y, View<T> dx, Write);
  static void cpu(const Execution&, View<const T> dy, View<const T> y, View<T> dx, Write);
};

}  // namespace tapeformer::kernels
