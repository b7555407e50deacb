// SPDX-License-Identifier: Apache-2.0
// What the plain loops of the reference device share: temporaries, storing a sum, and one dropout factor.
#pragma once
#include <vector>

#include "framework/core/random.h"
#include "framework/core/tensor.h"
#include "framework/kernels/dropout.h"
#include "framework/kernels/write.h"

namespace tapeformer::kernels::reference {

// A matrix of its own, for what a composition holds between two kernels.
template <class T>
class Temporary {
 public:
  Temporary(int64_t rows, int64_t columns) : values_(static_cast<size_t>(rows * columns)), rows_(rows), columns_(columns) {}
  View<T> view() { return {values_.data(), rows_, columns_, columns_}; }

 private:
  std::vector<T> values_;
  int64_t rows_, columns_;
};

// Sums are made in double and rounded once, here.
template <class T>
void store(T& place, double value, Write write) {
  place = static_cast<T>(write == Write::add ? static_cast<double>(place) + value : value);
}

// 0 where the element (row, column) of `sample` is dropped, 1 / (1 - p) where it is kept.
inline double dropout_factor(const DropoutDraw& draw, uint64_t key, uint32_t sample, int64_t row, int64_t column) {
  if (!draw.on()) return 1;
  const uint32_t word = Draw{key, sample, draw.step}.word(static_cast<uint32_t>(row), static_cast<uint32_t>(column));
  return word >= draw.threshold ? draw.scale : 0;
}

}  // namespace tapeformer::kernels::reference
