// SPDX-License-Identifier: Apache-2.0
// LayerNorm on the reference device.
#include "framework/kernels/layer_norm.h"

#include <cmath>
#include <vector>

#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels {

template <class T>
void LayerNormForward<T>::reference(const Execution&, View<const T> x, const T* gain, const T* shift, T epsilon, View<T> y, T* mean,
                                    T* rstd) {
  const int64_t columns = x.columns;
  for (int64_t r = 0; r < x.rows; ++r) {
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < columns; ++c) sum += x.row(r)[c];
    const double centre = sum / static_cast<double>(columns);
    for (int64_t c = 0; c < columns; ++c) squares += (x.row(r)[c] - centre) * (x.row(r)[c] - centre);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(columns) + epsilon);
    for (int64_t c = 0; c < columns; ++c) y.row(r)[c] = static_cast<T>((x.row(r)[c] - centre) * scale * gain[c] + shift[c]);
    mean[r] = static_cast<T>(centre);
    rstd[r] = static_cast<T>(scale);
  }
}

template <class T>
void LayerNormBackward<T>::reference(const Execution&, View<const T> dy, View<const T> x, const T* gain, const T* mean, const T* rstd,
                                     View<T> dx, Write write, T* dgain, T* dshift) {
  const int64_t columns = x.columns;
  std::vector<double> gain_sums(static_cast<size_t>(columns)), shift_sums(static_cast<size_t>(columns));
  for (int64_t r = 0; r < x.rows; ++r) {
    const auto normal = [&](int64_t c) { return (static_cast<double>(x.row(r)[c]) - mean[r]) * rstd[r]; };
    double average = 0, average_normal = 0;
    for (int64_t c = 0; c < columns; ++c) {
      const double d = dy.row(r)[c];
      average += gain[c] * d / static_cast<double>(columns);
      average_normal += gain[c] * d * normal(c) / static_cast<double>(columns);
      gain_sums[static_cast<size_t>(c)] += d * normal(c);
      shift_sums[static_cast<size_t>(c)] += d;
    }
    for (int64_t c = 0; c < columns; ++c) {
      const double g = static_cast<double>(gain[c]) * dy.row(r)[c];
      reference::store(dx.row(r)[c], rstd[r] * (g - average - normal(c) * average_normal), write);
    }
  }
  for (int64_t c = 0; c < columns; ++c) {
    if (dgain) reference::store(dgain[c], gain_sums[static_cast<size_t>(c)], Write::add);
    if (dshift) reference::store(dshift[c], shift_sums[static_cast<size_t>(c)], Write::add);
  }
}

template decltype(LayerNormForward<float>::reference) LayerNormForward<float>::reference;
template decltype(LayerNormForward<double>::reference) LayerNormForward<double>::reference;
template decltype(LayerNormBackward<float>::reference) LayerNormBackward<float>::reference;
template decltype(LayerNormBackward<double>::reference) LayerNormBackward<double>::reference;

}  // namespace tapeformer::kernels
