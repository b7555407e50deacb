// SPDX-License-Identifier: Apache-2.0
// The projection at the exit of a sub-layer: y = residual + dropout(x W' + b) in one pass over row blocks.
#pragma once
#include "framework/kernels/dropout.h"
#include "framework/kernels/linear.h"

namespace tapeformer::kernels {

// x[M,K], w[N,K], bias[N] or null, residual[M,N]; y[M,N] overwritten.
template <class T>
struct LinearResidualForward {
  static void reference(const Execution&, View<const T> x, View<const T> w, const T* bias, const DropoutDraw&, View<const T> residual,
                        View<T> y);
  static void cpu(const Execution&, View<const T> x, View<const T> w, const T* bias, const DropoutDraw&, View<const T> residual, View<T> y);
};

// dx (+)= ; dw, dbias added to (empty or null: nobody asked). The gradient of the residual is dy itself and is the caller's.
template <class T>
struct LinearResidualBackward {
  static void reference(const Execution&, View<const T> dy, View<const T> x, View<const T> w, const DropoutDraw&, View<T> dx, Write,
                        View<T> dw, T* dbias);
  static void cpu(const Execution&, View<const T> dy, View<const T> x, View<const T> w, const DropoutDraw&, View<T> dx, Write, View<T> dw,
                  T* dbias);
};

}  // namespace tapeformer::kernels
