// SPDX-License-Identifier: Apache-2.0
// Dropout whose mask is a function of (key, step, sample, row, column): it can be drawn again wherever it is needed, or remembered.
#pragma once
#include "framework/core/buffer.h"
#include "framework/core/device.h"
#include "framework/core/tensor.h"
#include "framework/kernels/write.h"

namespace tapeformer {

// One place that drops: an element (r, c) is kept iff Philox word c % 4 of counter (c / 4, positions[r], samples[r], step) >= threshold.
struct DropoutDraw {
  uint64_t key = 0;
  uint64_t threshold = 0;  // round(p 2^32); 0: nothing is dropped
  double scale = 1;        // 1 / (1 - p)
  uint32_t step = 0;
  const int32_t* positions = nullptr;  // [M]
  const uint32_t* samples = nullptr;   // [M]
  // Room for what the forward drops, [M][row_words] words: bit c % 32 of word c / 32. A device may leave it alone and draw again.
  Storage room;
  int64_t row_words = 0;
  bool drawn = false;  // the forward has run

  bool on() const { return threshold != 0; }
  // With room for M = rows, if something is dropped. It takes a 32nd of the floats, so no device is asked whether it will use it.
  DropoutDraw with_room(int64_t rows, int64_t columns) const {
    DropoutDraw out = *this;
    if (!on()) return out;
    out.row_words = (columns + 63) / 64 * 2;
    out.room = allocate(static_cast<size_t>(rows * out.row_words) * sizeof(uint32_t));
    return out;
  }
  // For the backward of a forward that was given this.
  DropoutDraw after() const {
    DropoutDraw out = *this;
    out.drawn = true;
    return out;
  }
};

}  // namespace tapeformer

namespace tapeformer::kernels {

// y (+)= x kept scale. Serves both directions: for the backward, x is dy and y is dx. x and y may be the same memory when overwriting.
template <class T>
struct Dropout {
  static void reference(const Execution&, const DropoutDraw&, View<const T> x, View<T> y, Write);
  static void cpu(const Execution&, const DropoutDraw&, View<const T> x, View<T> y, Write);
};

}  // namespace tapeformer::kernels
