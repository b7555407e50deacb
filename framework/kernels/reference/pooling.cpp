// SPDX-License-Identifier: Apache-2.0
// Pooling over the rows of each sequence on the reference device.
#include "framework/kernels/pooling.h"

namespace tapeformer::kernels {
namespace {

// Of the rows first .. end - 1 (at least one), the one with the largest value in column c; the first of equals, a NaN before all others.
template <class T>
int32_t largest_row(View<const T> x, int32_t first, int32_t end, int64_t c) {
  int32_t best = first;
  for (int32_t r = first + 1; r < end; ++r) {
    const T held = x.row(best)[c], next = x.row(r)[c];
    if (next > held || (next != next && held == held)) best = r;
  }
  return best;
}

template <class T>
T pooled(Pooling kind, View<const T> x, int32_t first, int32_t end, int64_t c) {
  if (kind == Pooling::first) return x.row(first)[c];
  double sum = 0;
  for (int32_t r = first; r < end; ++r) sum += x.row(r)[c];
  return static_cast<T>(sum / (end - first));
}

}  // namespace

template <class T>
void PoolingForward<T>::reference(const Execution&, Pooling kind, const std::vector<int32_t>& offsets, View<const T> x, View<T> y,
                                  int32_t* argmax) {
  for (int64_t b = 0; b < y.rows; ++b) {
    const int32_t first = offsets[static_cast<size_t>(b)], end = offsets[static_cast<size_t>(b) + 1];
    for (int64_t c = 0; c < y.columns; ++c) {
      if (kind == Pooling::max) {
        const int32_t row = first == end ? -1 : largest_row(x, first, end, c);
        argmax[b * y.columns + c] = row;
        y.row(b)[c] = row < 0 ? T{0} : x.row(row)[c];
      } else {
        y.row(b)[c] = first == end ? T{0} : pooled(kind, x, first, end, c);
      }
    }
  }
}

template <class T>
void PoolingBackward<T>::reference(const Execution&, Pooling kind, const std::vector<int32_t>& offsets, View<const T> dy,
                                   const int32_t* argmax, View<T> dx) {
  for (int64_t b = 0; b < dy.rows; ++b) {
    const int32_t first = offsets[static_cast<size_t>(b)], end = offsets[static_cast<size_t>(b) + 1];
    for (int32_t r = first; r < end; ++r)
      for (int64_t c = 0; c < dy.columns; ++c) {
        const T d = dy.row(b)[c];
        switch (kind) {
          case Pooling::mean:
            dx.row(r)[c] = static_cast<T>(d / static_cast<double>(end - first));
            break;
          case Pooling::max:
            dx.row(r)[c] = argmax[b * dy.columns + c] == r ? d : T{0};
            break;
          case Pooling::first:
            dx.row(r)[c] = r == first ? d : T{0};
            break;
        }
      }
  }
}

template decltype(PoolingForward<float>::reference) PoolingForward<float>::reference;
template decltype(PoolingForward<double>::reference) PoolingForward<double>::reference;
template decltype(PoolingBackward<float>::reference) PoolingBackward<float>::reference;
template decltype(PoolingBackward<double>::reference) PoolingBackward<double>::reference;

}  // namespace tapeformer::kernels
