// SPDX-License-Identifier: Apache-2.0
// Activations on the reference device.
#include "framework/kernels/activation.h"

#include <cmath>
#include <numbers>

namespace tapeformer::kernels {
namespace {

constexpr double tanh_factor = 0.79788456080286535588;  // sqrt(2 / pi)
constexpr double tanh_cubic = 0.044715;

double value(Activation f, double x) {
  switch (f) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < 0 ? 0 : x;  // NaN stays NaN
    case Activation::gelu:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(tanh_factor * (x + tanh_cubic * x * x * x)));
  }
  return x;
}

double slope(Activation f, double x) {
  switch (f) {
    case Activation::none:
      return 1;
    case Activation::relu:
      return x > 0 ? 1 : 0;
    case Activation::gelu:  // Phi(x) + x phi(x)
      return 0.5 * std::erfc(-x / std::numbers::sqrt2) + x * std::exp(-0.5 * x * x) * 0.5 * tanh_factor;
    case Activation::gelu_tanh: {
      const double t = std::tanh(tanh_factor * (x + tanh_cubic * x * x * x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * tanh_factor * (1 + 3 * tanh_cubic * x * x);
    }
  }
  return 1;
}

}  // namespace

template <class T>
void ActivationForward<T>::reference(const Execution&, Activation f, View<const T> x, View<T> y) {
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < x.columns; ++c) y.row(r)[c] = static_cast<T>(value(f, x.row(r)[c]));
}

template <class T>
void ActivationBackward<T>::reference(const Execution&, Activation f, View<const T> x, View<const T> dy, View<T> dx) {
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < x.columns; ++c) dx.row(r)[c] = static_cast<T>(dy.row(r)[c] * slope(f, x.row(r)[c]));
}

template decltype(ActivationForward<float>::reference) ActivationForward<float>::reference;
template decltype(ActivationForward<double>::reference) ActivationForward<double>::reference;
template decltype(ActivationBackward<float>::reference) ActivationBackward<float>::reference;
template decltype(ActivationBackward<double>::reference) ActivationBackward<double>::reference;

}  // namespace tapeformer::kernels
