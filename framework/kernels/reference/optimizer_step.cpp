// SPDX-License-Identifier: Apache-2.0
// Optimiser passes on the reference device.
#include "framework/kernels/optimizer_step.h"

#include <algorithm>
#include <cmath>

namespace tapeformer::kernels {
namespace {

double scaled_and_clipped(double gradient, double scale, double clip) {
  const double g = gradient * scale;
  return clip > 0 ? std::clamp(g, -clip, clip) : g;
}

}  // namespace

template <class T>
void AdamStep<T>::reference(const Execution&, const AdamSettings& s, int64_t n, const T* gradient, T* parameter, T* exp_avg,
                            T* exp_avg_sq) {
  for (int64_t i = 0; i < n; ++i) {
    double g = scaled_and_clipped(gradient[i], s.gradient_scale, s.clip_value), p = parameter[i];
    if (s.decoupled) p -= s.rate * s.decay * p;
    else g += s.decay * p;
    const double m = s.beta1 * exp_avg[i] + (1 - s.beta1) * g, v = s.beta2 * exp_avg_sq[i] + (1 - s.beta2) * g * g;
    parameter[i] = static_cast<T>(p - s.rate * (m / s.correction1) / (std::sqrt(v / s.correction2) + s.epsilon));
    exp_avg[i] = static_cast<T>(m);
    exp_avg_sq[i] = static_cast<T>(v);
  }
}

template <class T>
void SgdStep<T>::reference(const Execution&, const SgdSettings& s, int64_t n, const T* gradient, T* parameter, T* momentum) {
  for (int64_t i = 0; i < n; ++i) {
    double g = scaled_and_clipped(gradient[i], s.gradient_scale, s.clip_value) + s.decay * parameter[i];
    if (s.momentum != 0) {
      g += s.momentum * momentum[i];
      momentum[i] = static_cast<T>(g);
    }
    parameter[i] = static_cast<T>(parameter[i] - s.rate * g);
  }
}

template <class T>
void MoveAverage<T>::reference(const Execution&, double decay, int64_t n, const T* value, T* average) {
  for (int64_t i = 0; i < n; ++i) average[i] = static_cast<T>(decay * average[i] + (1 - decay) * value[i]);
}

template <class T>
void SumOfSquares<T>::reference(const Execution&, int64_t n, const T* x, double* sum) {
  *sum = 0;
  for (int64_t i = 0; i < n; ++i) *sum += static_cast<double>(x[i]) * x[i];
}

template decltype(AdamStep<float>::reference) AdamStep<float>::reference;
template decltype(AdamStep<double>::reference) AdamStep<double>::reference;
template decltype(SgdStep<float>::reference) SgdStep<float>::reference;
template decltype(SgdStep<double>::reference) SgdStep<double>::reference;
template decltype(MoveAverage<float>::reference) MoveAverage<float>::reference;
template decltype(MoveAverage<double>::reference) MoveAverage<double>::reference;
template decltype(SumOfSquares<float>::reference) SumOfSquares<float>::reference;
template decltype(SumOfSquares<double>::reference) SumOfSquares<double>::reference;

}  // namespace tapeformer::kernels
