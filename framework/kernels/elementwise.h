// SPDX-License-Identifier: Apache-2.0
// Sums, products and scalings of whole arrays.
#pragma once
#include "framework/core/device.h"
#include "framework/core/tensor.h"
#include "framework/kernels/write.h"

namespace tapeformer::kernels {

// y += x, both [M,N].
template <class T>
struct AddTo {
  static void reference(const Execution&, View<const T> x, View<T> y);
  static void cpu(const Execution&, View<const T> x, View<T> y);
};

// z = x + y, overwritten; z may be x or y.
template <class T>
struct Sum {
  static void reference(const Execution&, View<const T> x, View<const T> y, View<T> z);
  static void cpu(const Execution&, View<const T> x, View<const T> y, View<T> z);
};

// z (+)= x y, element by element.
template <class T>
struct Multiply {
  static void reference(const Execution&, View<const T> x, View<const T> y, View<T> z, Write);
  static void cpu(const Execution&, View<const T> x, View<const T> y, View<T> z, Write);
};

// y (+)= factor x; y may be x.
template <class T>
struct Scaled {
  static void reference(const Execution&, T factor, View<const T> x, View<T> y, Write);
  static void cpu(const Execution&, T factor, View<const T> x, View<T> y, Write);
};

}  // namespace tapeformer::kernels
