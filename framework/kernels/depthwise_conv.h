// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution along the positions of each sequence: all channels of a head share one kernel, and beyond a sequence there are
// zeros.
#pragma once
#include "framework/core/device.h"
#include "framework/core/packing.h"
#include "framework/core/tensor.h"
#include "framework/kernels/write.h"

namespace tapeformer::kernels {

// y_i (+)= sum over t of w[h,t] x_{i + t - (taps - 1) / 2} in the columns of head h. x, y [T,C]; w [H,taps], taps odd, H divides C.
// `reversed` reads w[h] from its end: the gradient of x from that of y.
template <class T>
struct DepthwiseConv {
  static void reference(const Execution&, const Packing&, View<const T> x, View<const T> w, bool reversed, View<T> y, Write);
  static void cpu(const Execution&, const Packing&, View<const T> x, View<const T> w, bool reversed, View<T> y, Write);
};

// dw[h,t] += sum over i and the columns of head h of dy_i x_{i + t - (taps - 1) / 2}.
template <class T>
struct DepthwiseConvWeight {
  static void reference(const Execution&, const Packing&, View<const T> x, View<const T> dy, View<T> dw);
  static void cpu(const Execution&, const Packing&, View<const T> x, View<const T> dy, View<T> dw);
};

}  // namespace tapeformer::kernels
