// SPDX-License-Identifier: Apache-2.0
// The projection at the entrance of a sub-layer: y = LayerNorm(x) W' + b in one pass over row blocks.
#pragma once
#include "framework/core/device.h"
#include "framework/core/tensor.h"
#include "framework/kernels/write.h"

namespace tapeformer::kernels {

// x[M,C], w[N,C], bias[N] or null; y[M,N], mean[M], rstd[M] overwritten.
template <class T>
struct NormLinearForward {
  static void reference(const Execution&, View<const T> x, const T* gain, const T* shift, T epsilon, View<const T> w, const T* bias,
                        View<T> y, T* mean, T* rstd);
  static void cpu(const Execution&, View<const T> x, const T* gain, const T* shift, T epsilon, View<const T> w, const T* bias, View<T> y,
                  T* mean, T* rstd);
};

// Gradients through both: dx (+)=, everything else is added to. Null pointers (empty dw) are gradients nobody asked for.
template <class T>
struct NormLinearGradients {
  View<T> dw;
  T *dbias = nullptr, *dgain = nullptr, *dshift = nullptr;
};
template <class T>
struct NormLinearBackward {
  static void reference(const Execution&, View<const T> dy, View<const T> x, const T* gain, const T* shift, const T* mean, const T* rstd,
                        View<const T> w, View<T> dx, Write, NormLinearGradients<T>);
  static void cpu(const Execution&, View<const T> dy, View<const T> x, const T* gain, const T* shift, const T* mean, const T* rstd,
                  View<const T> w, View<T> dx, Write, NormLinearGradients<T>);
};

}  // namespace tapeformer::kernels
