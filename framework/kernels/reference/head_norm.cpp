// SPDX-License-Identifier: Apache-2.0
// Norms of heads on the reference device.
#include "framework/kernels/head_norm.h"

#include <algorithm>
#include <cmath>

#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels {
namespace {

// What one row of one head is shifted and multiplied by.
struct RowNorm {
  double centre = 0, inverse = 0;
  bool at_floor = false;
};

template <class T>
RowNorm norm_of(const HeadNormCall& call, const T* x, int64_t d) {
  RowNorm out;
  if (call.centred)
    for (int64_t c = 0; c < d; ++c) out.centre += static_cast<double>(x[c]) / static_cast<double>(d);
  double squares = 0;
  for (int64_t c = 0; c < d; ++c) squares += (x[c] - out.centre) * (x[c] - out.centre);
  const double length = std::sqrt(squares / static_cast<double>(d) + call.epsilon);
  out.at_floor = length < call.floor;
  out.inverse = 1 / (out.at_floor ? call.floor : length);
  return out;
}

}  // namespace

template <class T>
void HeadNormForward<T>::reference(const Execution&, const HeadNormCall& call, View<const T> x, View<T> y) {
  const int64_t d = x.columns / (call.heads + call.kept), normed = d * call.heads;
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t first = 0; first < normed; first += d) {
      const RowNorm n = norm_of(call, x.row(r) + first, d);
      for (int64_t c = first; c < first + d; ++c) y.row(r)[c] = static_cast<T>((x.row(r)[c] - n.centre) * n.inverse * call.factor);
    }
    std::copy(x.row(r) + normed, x.row(r) + x.columns, y.row(r) + normed);
  }
}

template <class T>
void HeadNormBackward<T>::reference(const Execution&, const HeadNormCall& call, View<const T> dy, View<const T> x, View<T> dx,
                                    Write write) {
  const int64_t d = x.columns / (call.heads + call.kept), normed = d * call.heads;
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t first = 0; first < normed; first += d) {
      const RowNorm n = norm_of(call, x.row(r) + first, d);
      const auto h = [&](int64_t c) { return (x.row(r)[c] - n.centre) * n.inverse; };
      double average = 0, along = 0;
      for (int64_t c = first; c < first + d; ++c) {
        const double g = call.factor * dy.row(r)[c] / static_cast<double>(d);
        if (call.centred) average += g;
        if (!n.at_floor) along += g * h(c);
      }
      for (int64_t c = first; c < first + d; ++c)
        reference::store(dx.row(r)[c], n.inverse * (call.factor * dy.row(r)[c] - average - h(c) * along), write);
    }
    for (int64_t c = normed; c < x.columns; ++c) reference::store(dx.row(r)[c], static_cast<double>(dy.row(r)[c]), write);
  }
}

template decltype(HeadNormForward<float>::reference) HeadNormForward<float>::reference;
template decltype(HeadNormForward<double>::reference) HeadNormForward<double>::reference;
template decltype(HeadNormBackward<float>::reference) HeadNormBackward<float>::reference;
template decltype(HeadNormBackward<double>::reference) HeadNormBackward<double>::reference;

}  // namespace tapeformer::kernels
