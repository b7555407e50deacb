// SPDX-License-Identifier: Apache-2.0
// Linear layers on the reference device.
#include "framework/kernels/linear.h"

#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels {

template <class T>
void LinearForward<T>::reference(const Execution&, View<const T> x, View<const T> w, const T* bias, View<T> y) {
  for (int64_t m = 0; m < y.rows; ++m)
    for (int64_t n = 0; n < w.rows; ++n) {
      double sum = bias ? static_cast<double>(bias[n]) : 0;
      for (int64_t k = 0; k < w.columns; ++k) sum += static_cast<double>(x.row(m)[k]) * w.row(n)[k];
      y.row(m)[n] = static_cast<T>(sum);
    }
}

template <class T>
void LinearBackwardInput<T>::reference(const Execution&, View<const T> dy, View<const T> w, View<T> dx, Write write) {
  for (int64_t m = 0; m < dx.rows; ++m)
    for (int64_t k = 0; k < w.columns; ++k) {
      double sum = 0;
      for (int64_t n = 0; n < w.rows; ++n) sum += static_cast<double>(dy.row(m)[n]) * w.row(n)[k];
      reference::store(dx.row(m)[k], sum, write);
    }
}

template <class T>
void LinearBackwardWeight<T>::reference(const Execution&, View<const T> dy, View<const T> x, View<T> dw, T* dbias) {
  for (int64_t n = 0; n < dw.rows; ++n)
    for (int64_t k = 0; k < dw.columns; ++k) {
      double sum = 0;
      for (int64_t m = 0; m < dy.rows; ++m) sum += static_cast<double>(dy.row(m)[n]) * x.row(m)[k];
      reference::store(dw.row(n)[k], sum, Write::add);
    }
  for (int64_t n = 0; dbias && n < dy.columns; ++n) {
    double sum = 0;
    for (int64_t m = 0; m < dy.rows; ++m) sum += dy.row(m)[n];
    reference::store(dbias[n], sum, Write::add);
  }
}

template decltype(LinearForward<float>::reference) LinearForward<float>::reference;
template decltype(LinearForward<double>::reference) LinearForward<double>::reference;
template decltype(LinearBackwardInput<float>::reference) LinearBackwardInput<float>::reference;
template decltype(LinearBackwardInput<double>::reference) LinearBackwardInput<double>::reference;
template decltype(LinearBackwardWeight<float>::reference) LinearBackwardWeight<float>::reference;
template decltype(LinearBackwardWeight<double>::reference) LinearBackwardWeight<double>::reference;

}  // namespace tapeformer::kernels
