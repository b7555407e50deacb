// SPDX-License-Identifier: Apache-2.0
// One pass over a parameter, its gradient and its optimiser slots. All arrays have n elements and are updated in place.
#pragma once
#include <cstdint>

#include "framework/core/device.h"

namespace tapeformer::kernels {

// m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; p -= rate ( (m / c1) / (sqrt(v / c2) + eps) ) after p -= rate decay p (decoupled) or with
// g += decay p before (coupled: Adam's L2). c1 = 1 - b1^step, c2 = 1 - b2^step. g is multiplied by gradient_scale first.
struct AdamSettings {
  double rate = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, decay = 0, correction1 = 1, correction2 = 1, gradient_scale = 1;
  double clip_value = 0;  // > 0: |g| <= clip_value after the scaling
  bool decoupled = true;
};
template <class T>
struct AdamStep {
  static void reference(const Execution&, const AdamSettings&, int64_t n, const T* gradient, T* parameter, T* exp_avg, T* exp_avg_sq);
  static void cpu(const Execution&, const AdamSettings&, int64_t n, const T* gradient, T* parameter, T* exp_avg, T* exp_avg_sq);
};

// g = gradient_scale g + decay p; b = momentum b + g; p -= rate b (PyTorch's SGD without dampening or Nesterov). momentum 0: no buffer.
struct SgdSettings {
  double rate = 0, momentum = 0, decay = 0, gradient_scale = 1, clip_value = 0;
};
template <class T>
struct SgdStep {
  static void reference(const Execution&, const SgdSettings&, int64_t n, const T* gradient, T* parameter, T* momentum);
  static void cpu(const Execution&, const SgdSettings&, int64_t n, const T* gradient, T* parameter, T* momentum);
};

// average = decay average + (1 - decay) value.
template <class T>
struct MoveAverage {
  static void reference(const Execution&, double decay, int64_t n, const T* value, T* average);
  static void cpu(const Execution&, double decay, int64_t n, const T* value, T* average);
};

// *sum = sum of squares in double, over fixed blocks in fixed order; infinite or NaN elements give an infinite or NaN sum.
template <class T>
struct SumOfSquares {
  static void reference(const Execution&, int64_t n, const T* x, double* sum);
  static void cpu(const Execution&, int64_t n, const T* x, double* sum);
};

}  // namespace tapeformer::kernels
