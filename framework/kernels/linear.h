// SPDX-License-Identifier: Apache-2.0
// y = x W' + b and its gradients. W is stored [N,K] (out, in), as PyTorch stores it; bias may be null.
// A row of y or dx has the same bytes whatever other rows stand beside it.
#pragma once
#include "framework/core/device.h"
#include "framework/core/tensor.h"
#include "framework/kernels/write.h"

namespace tapeformer::kernels {

// y[M,N] = x[M,K] W' + bias[N], overwritten.
template <class T>
struct LinearForward {
  static void reference(const Execution&, View<const T> x, View<const T> w, const T* bias, View<T> y);
  static void cpu(const Execution&, View<const T> x, View<const T> w, const T* bias, View<T> y);
};

// dx[M,K] (+)= dy[M,N] W.
template <class T>
struct LinearBackwardInput {
  static void reference(const Execution&, View<const T> dy, View<const T> w, View<T> dx, Write);
  static void cpu(const Execution&, View<const T> dy, View<const T> w, View<T> dx, Write);
};

// dw[N,K] += dy' x; dbias[N] += column sums of dy (null: no bias).
template <class T>
struct LinearBackwardWeight {
  static void reference(const Execution&, View<const T> dy, View<const T> x, View<T> dw, T* dbias);
  static void cpu(const Execution&, View<const T> dy, View<const T> x, View<T> dw, T* dbias);
};

}  // namespace tapeformer::kernels
