// SPDX-License-Identifier: Apache-2.0
// BatchNorm on the reference device.
#include "framework/kernels/batch_norm.h"

#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels {

template <class T>
void BatchNormStatistics<T>::reference(const Execution&, View<const T> x, T* mean, T* m2) {
  for (int64_t c = 0; c < x.columns; ++c) {
    double sum = 0, squares = 0;
    for (int64_t r = 0; r < x.rows; ++r) sum += x.row(r)[c];
    const double centre = sum / static_cast<double>(x.rows);
    for (int64_t r = 0; r < x.rows; ++r) squares += (x.row(r)[c] - centre) * (x.row(r)[c] - centre);
    mean[c] = static_cast<T>(centre);
    m2[c] = static_cast<T>(squares);
  }
}

template <class T>
void BatchNormApply<T>::reference(const Execution&, View<const T> x, const T* mean, const T* rstd, const T* gain, const T* shift,
                                  View<T> y) {
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < x.columns; ++c)
      y.row(r)[c] = static_cast<T>((static_cast<double>(x.row(r)[c]) - mean[c]) * rstd[c] * gain[c] + shift[c]);
}

template <class T>
void BatchNormBackward<T>::reference(const Execution&, BatchNormMode mode, View<const T> dy, View<const T> x, const T* mean, const T* rstd,
                                     const T* gain, View<T> dx, Write write, T* dgain, T* dshift) {
  const double rows = static_cast<double>(x.rows);
  for (int64_t c = 0; c < x.columns; ++c) {
    const auto normal = [&](int64_t r) { return (static_cast<double>(x.row(r)[c]) - mean[c]) * rstd[c]; };
    double sum = 0, sum_normal = 0;
    for (int64_t r = 0; r < x.rows; ++r) {
      sum += dy.row(r)[c];
      sum_normal += dy.row(r)[c] * normal(r);
    }
    for (int64_t r = 0; r < x.rows; ++r) {
      const double correction = mode == BatchNormMode::batch ? sum / rows + normal(r) * sum_normal / rows : 0;
      reference::store(dx.row(r)[c], static_cast<double>(gain[c]) * rstd[c] * (dy.row(r)[c] - correction), write);
    }
    if (dgain) reference::store(dgain[c], sum_normal, Write::add);
    if (dshift) reference::store(dshift[c], sum, Write::add);
  }
}

template decltype(BatchNormStatistics<float>::reference) BatchNormStatistics<float>::reference;
template decltype(BatchNormStatistics<double>::reference) BatchNormStatistics<double>::reference;
template decltype(BatchNormApply<float>::reference) BatchNormApply<float>::reference;
template decltype(BatchNormApply<double>::reference) BatchNormApply<double>::reference;
template decltype(BatchNormBackward<float>::reference) BatchNormBackward<float>::reference;
template decltype(BatchNormBackward<double>::reference) BatchNormBackward<double>::reference;

}  // namespace tapeformer::kernels
