// SPDX-License-Identifier: Apache-2.0
// Softmax on the reference device.
#include "framework/kernels/softmax.h"

#include <algorithm>
#include <cmath>

#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels {

template <class T>
void SoftmaxForward<T>::reference(const Execution&, View<const T> x, View<T> y) {
  for (int64_t r = 0; r < x.rows; ++r) {
    const double largest = *std::max_element(x.row(r), x.row(r) + x.columns);
    double sum = 0;
    for (int64_t c = 0; c < x.columns; ++c) sum += std::exp(x.row(r)[c] - largest);
    for (int64_t c = 0; c < x.columns; ++c) y.row(r)[c] = static_cast<T>(std::exp(x.row(r)[c] - largest) / sum);
  }
}

template <class T>
void SoftmaxBackward<T>::reference(const Execution&, View<const T> dy, View<const T> y, View<T> dx, Write write) {
  for (int64_t r = 0; r < y.rows; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < y.columns; ++c) sum += static_cast<double>(dy.row(r)[c]) * y.row(r)[c];
    for (int64_t c = 0; c < y.columns; ++c) reference::store(dx.row(r)[c], y.row(r)[c] * (dy.row(r)[c] - sum), write);
  }
}

template decltype(SoftmaxForward<float>::reference) SoftmaxForward<float>::reference;
template decltype(SoftmaxForward<double>::reference) SoftmaxForward<double>::reference;
template decltype(SoftmaxBackward<float>::reference) SoftmaxBackward<float>::reference;
template decltype(SoftmaxBackward<double>::reference) SoftmaxBackward<double>::reference;

}  // namespace tapeformer::kernels
