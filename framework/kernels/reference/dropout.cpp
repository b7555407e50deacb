// SPDX-License-Identifier: Apache-2.0
// Dropout on the reference device.
#include "framework/kernels/dropout.h"

#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels {

template <class T>
void Dropout<T>::reference(const Execution&, const DropoutDraw& draw, View<const T> x, View<T> y, Write write) {
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < x.columns; ++c) {
      const double factor = draw.on() ? reference::dropout_factor(draw, draw.key, draw.samples[r], draw.positions[r], c) : 1;
      // A dropped element is 0 whatever it was, infinities included.
      reference::store(y.row(r)[c], factor == 0 ? 0 : factor * x.row(r)[c], write);
    }
}

template decltype(Dropout<float>::reference) Dropout<float>::reference;
template decltype(Dropout<double>::reference) Dropout<double>::reference;

}  // namespace tapeformer::kernels
