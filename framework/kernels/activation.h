// SPDX-License-Identifier: Apache-2.0
// Elementwise activations: ReLU and GELU (Hendrycks, Gimpel 2016, 1606.08415) in its erf form and its tanh approximation.
#pragma once
#include "framework/core/device.h"
#include "framework/core/tensor.h"

namespace tapeformer {
enum class Activation : uint8_t { none, relu, gelu, gelu_tanh };
}

namespace tapeformer::kernels {

// y = f(x), overwritten; x and y [M,N] may be the same memory.
template <class T>
struct ActivationForward {
  static void reference(const Execution&, Activation, View<const T> x, View<T> y);
  static void cpu(const Execution&, Activation, View<const T> x, View<T> y);
};

// dx = dy f'(x), overwritten; dy and dx may be the same memory.
template <class T>
struct ActivationBackward {
  static void reference(const Execution&, Activation, View<const T> x, View<const T> dy, View<T> dx);
  static void cpu(const Execution&, Activation, View<const T> x, View<const T> dy, View<T> dx);
};

}  // namespace tapeformer::kernels
