// SPDX-License-Identifier: Apache-2.0
// BatchNorm (Ioffe, Szegedy 2015, 1502.03167) over the T real rows of a packed batch, per channel.
#pragma once
#include "framework/core/device.h"
#include "framework/core/tensor.h"
#include "framework/kernels/write.h"

namespace tapeformer::kernels {

// mean[C] and m2[C] = sum over rows of (x - mean)^2, overwritten; two passes, never E[x^2] - mean^2.
template <class T>
struct BatchNormStatistics {
  static void reference(const Execution&, View<const T> x, T* mean, T* m2);
  static void cpu(const Execution&, View<const T> x, T* mean, T* m2);
};

// y = (x - mean) rstd gain + shift per channel, overwritten.
template <class T>
struct BatchNormApply {
  static void reference(const Execution&, View<const T> x, const T* mean, const T* rstd, const T* gain, const T* shift, View<T> y);
  static void cpu(const Execution&, View<const T> x, const T* mean, const T* rstd, const T* gain, const T* shift, View<T> y);
};

enum class BatchNormMode : uint8_t { batch, fixed };  // statistics of this batch (they take part in the gradient), or given ones

// With h = (x - mean) rstd: dgain[C] += sum dy h, dshift[C] += sum dy; batch: dx (+)= gain rstd (dy - avg(dy) - h avg(dy h)); fixed: gain
// rstd dy.
template <class T>
struct BatchNormBackward {
  static void reference(const Execution&, BatchNormMode, View<const T> dy, View<const T> x, const T* mean, const T* rstd, const T* gain,
                        View<T> dx, Write, T* dgain, T* dshift);
  static void cpu(const Execution&, BatchNormMode, View<const T> dy, View<const T> x, const T* mean, const T* rstd, const T* gain,
                  View<T> dx, Write, T* dgain, T* dshift);
};

}  // namespace tapeformer::kernels
