// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution on the reference device.
#include "framework/kernels/depthwise_conv.h"

#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels {

template <class T>
void DepthwiseConv<T>::reference(const Execution&, const Packing& packing, View<const T> x, View<const T> w, bool reversed, View<T> y,
                                 Write write) {
  const int64_t head_dim = x.columns / w.rows, centre = (w.columns - 1) / 2;
  for (int64_t r = 0; r < y.rows; ++r) {
    const int64_t place = packing.positions()[static_cast<size_t>(r)];
    for (int64_t c = 0; c < y.columns; ++c) {
      double sum = 0;
      for (int64_t t = 0; t < w.columns; ++t) {
        const int64_t at = r + t - centre;
        // Of the same sequence: as far from this row as their places say.
        if (at < 0 || at >= x.rows || place + t - centre < 0 || packing.positions()[static_cast<size_t>(at)] != place + t - centre)
          continue;
        sum += static_cast<double>(w.row(c / head_dim)[reversed ? w.columns - 1 - t : t]) * static_cast<double>(x.row(at)[c]);
      }
      reference::store(y.row(r)[c], sum, write);
    }
  }
}

template <class T>
void DepthwiseConvWeight<T>::reference(const Execution&, const Packing& packing, View<const T> x, View<const T> dy, View<T> dw) {
  const int64_t head_dim = x.columns / dw.rows, centre = (dw.columns - 1) / 2;
  for (int64_t h = 0; h < dw.rows; ++h)
    for (int64_t t = 0; t < dw.columns; ++t) {
      double sum = 0;
      for (int b = 0; b < packing.sequences(); ++b) {
        const int64_t first = packing.offsets()[static_cast<size_t>(b)], n = packing.length(b);
        for (int64_t i = 0; i < n; ++i) {
          const int64_t j = i + t - centre;
          if (j < 0 || j >= n) continue;
          for (int64_t c = h * head_dim; c < (h + 1) * head_dim; ++c)
            sum += static_cast<double>(dy.row(first + i)[c]) * static_cast<double>(x.row(first + j)[c]);
        }
      }
      reference::store(dw.row(h)[t], sum, Write::add);
    }
}

template decltype(DepthwiseConv<float>::reference) DepthwiseConv<float>::reference;
template decltype(DepthwiseConv<double>::reference) DepthwiseConv<double>::reference;
template decltype(DepthwiseConvWeight<float>::reference) DepthwiseConvWeight<float>::reference;
template decltype(DepthwiseConvWeight<double>::reference) DepthwiseConvWeight<double>::reference;

}  // namespace tapeformer::kernels
