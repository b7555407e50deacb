// SPDX-License-Identifier: Apache-2.0
// LayerNorm (Ba, Kiros, Hinton 2016, 1607.06450) over the columns of each row.
#pragma once
#include "framework/core/device.h"
#include "framework/core/tensor.h"
#include "framework/kernels/write.h"

namespace tapeformer::kernels {

// y = (x - mean) rstd gain + shift, x and y [M,C], overwritten; mean and rstd [M] are saved for the backward.
template <class T>
struct LayerNormForward {
  static void reference(const Execution&, View<const T> x, const T* gain, const T* shift, T epsilon, View<T> y, T* mean, T* rstd);
  static void cpu(const Execution&, View<const T> x, const T* gain, const T* shift, T epsilon, View<T> y, T* mean, T* rstd);
};

// With h = (x - mean) rstd and g = gain dy: dx (+)= rstd (g - avg(g) - h avg(g h)); dgain[C] += sum dy h; dshift[C] += sum dy.
template <class T>
struct LayerNormBackward {
  static void reference(const Execution&, View<const T> dy, View<const T> x, const T* gain, const T* mean, const T* rstd, View<T> dx, Write,
                        T* dgain, T* dshift);
  static void cpu(const Execution&, View<const T> dy, View<const T> x, const T* gain, const T* mean, const T* rstd, View<T> dx, Write,
                  T* dgain, T* dshift);
};

}  // namespace tapeformer::kernels
