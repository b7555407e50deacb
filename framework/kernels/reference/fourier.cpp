// SPDX-License-Identifier: Apache-2.0
// The Fourier transform by its definition, over channels and then over positions.
#include "framework/kernels/fourier.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels {
namespace {

// cos and sin of 2 pi k / n for k < n.
struct Circle {
  std::vector<double> cosine, sine;
  explicit Circle(int64_t n) {
    for (int64_t k = 0; k < n; ++k) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
      cosine.push_back(std::cos(angle));
      sine.push_back(std::sin(angle));
    }
  }
};

}  // namespace

template <class T>
void FourierMix<T>::reference(const Execution&, const FourierCall& call, View<const T> x, View<T> y, Write write) {
  const int64_t channels = x.columns;
  const Circle over_channels(channels);
  for (int b = 0; b < call.packing->sequences(); ++b) {
    const int64_t n = call.packing->length(b), first = call.packing->offsets()[static_cast<size_t>(b)];
    const int64_t length = call.plans[static_cast<size_t>(b)]->length;
    const Circle over_positions(length);
    std::vector<double> even(static_cast<size_t>(n * channels)), odd(even.size());  // x cos and x sin over the channels
    for (int64_t j = 0; j < n; ++j)
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t d = 0; d < channels; ++d) {
          const auto at = static_cast<size_t>(d * c % channels);
          even[static_cast<size_t>(j * channels + c)] += over_channels.cosine[at] * x.row(first + j)[d];
          odd[static_cast<size_t>(j * channels + c)] += over_channels.sine[at] * x.row(first + j)[d];
        }
    for (int64_t k = 0; k < n; ++k)
      for (int64_t c = 0; c < channels; ++c) {
        double sum = 0;
        for (int64_t j = 0; j < n; ++j) {
          const auto at = static_cast<size_t>(j * k % length), from = static_cast<size_t>(j * channels + c);
          sum += over_positions.cosine[at] * even[from] - over_positions.sine[at] * odd[from];
        }
        reference::store(y.row(first + k)[c], sum, write);
      }
  }
}

template decltype(FourierMix<float>::reference) FourierMix<float>::reference;
template decltype(FourierMix<double>::reference) FourierMix<double>::reference;

}  // namespace tapeformer::kernels
