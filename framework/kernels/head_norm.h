// SPDX-License-Identifier: Apache-2.0
// Rows of heads brought to one length: LayerNorm without gain and shift, root mean square, Euclidean norm.
#pragma once
#include "framework/core/device.h"
#include "framework/core/tensor.h"
#include "framework/kernels/write.h"

namespace tapeformer::kernels {

// y = factor (x - c) / max(sqrt(mean of (x - c)^2 + epsilon), floor) over the columns of one head, c their mean or 0.
struct HeadNormCall {
  int heads = 1;
  int kept = 0;  // heads behind those that stay as they are
  bool centred = false;
  double factor = 1, epsilon = 0, floor = 0;
};

// x, y [M, (heads + kept) * D], y overwritten.
template <class T>
struct HeadNormForward {
  static void reference(const Execution&, const HeadNormCall&, View<const T> x, View<T> y);
  static void cpu(const Execution&, const HeadNormCall&, View<const T> x, View<T> y);
};

// With r the inverse length, h = (x - c) r, g = factor dy: dx (+)= r (g - [centred] mean(g) - h mean(g h)); without the last term where
// the length is the floor.
template <class T>
struct HeadNormBackward {
  static void reference(const Execution&, const HeadNormCall&, View<const T> dy, View<const T> x, View<T> dx, Write);
  static void cpu(const Execution&, const HeadNormCall&, View<const T> dy, View<const T> x, View<T> dx, Write);
};

}  // namespace tapeformer::kernels
