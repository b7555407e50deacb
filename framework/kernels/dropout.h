// SPDX-License-Identifier: Apache-2.0
// Dropout whose mask is a function of (key, step, sample, row, column), so it is drawn again wherever it is needed.
#pragma once
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
  bool on() const { return threshold != 0; }
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
