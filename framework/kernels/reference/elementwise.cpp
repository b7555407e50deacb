// SPDX-License-Identifier: Apache-2.0
// Sums and scalings on the reference device.
#include "framework/kernels/elementwise.h"

#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels {

template <class T>
void AddTo<T>::reference(const Execution&, View<const T> x, View<T> y) {
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < x.columns; ++c) y.row(r)[c] += x.row(r)[c];
}

template <class T>
void Sum<T>::reference(const Execution&, View<const T> x, View<const T> y, View<T> z) {
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < x.columns; ++c) z.row(r)[c] = x.row(r)[c] + y.row(r)[c];
}

template <class T>
void Multiply<T>::reference(const Execution&, View<const T> x, View<const T> y, View<T> z, Write write) {
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < x.columns; ++c) reference::store(z.row(r)[c], static_cast<double>(x.row(r)[c]) * y.row(r)[c], write);
}

template <class T>
void Scaled<T>::reference(const Execution&, T factor, View<const T> x, View<T> y, Write write) {
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < x.columns; ++c) reference::store(y.row(r)[c], static_cast<double>(factor) * x.row(r)[c], write);
}

template decltype(AddTo<float>::reference) AddTo<float>::reference;
template decltype(AddTo<double>::reference) AddTo<double>::reference;
template decltype(Sum<float>::reference) Sum<float>::reference;
template decltype(Sum<double>::reference) Sum<double>::reference;
template decltype(Multiply<float>::reference) Multiply<float>::reference;
template decltype(Multiply<double>::reference) Multiply<double>::reference;
template decltype(Scaled<float>::reference) Scaled<float>::reference;
template decltype(Scaled<double>::reference) Scaled<double>::reference;

}  // namespace tapeformer::kernels
