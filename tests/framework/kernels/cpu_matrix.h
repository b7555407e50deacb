// SPDX-License-Identifier: Apache-2.0
// Matrices for the tests of the cpu kernels: uneven numbers, strided and misaligned as a slice of a wider matrix is, and plain double loops
// to compare with.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "framework/core/device.h"
#include "framework/core/parallel.h"
#include "framework/core/random.h"
#include "framework/core/tensor.h"
#include "tests/support/catch.h"

namespace tapeformer::test {

class Matrix {
 public:
  // Uniform in (-scale, scale), with an outlier here and there; `gap` floats between rows, the first one not aligned to a vector.
  Matrix(int64_t rows, int64_t columns, uint32_t seed, double scale = 1, int64_t gap = 3)
      : rows_(rows), columns_(columns), stride_(columns + gap), memory_(static_cast<size_t>(1 + rows * stride_), -77.f) {
    const Draw draw{seed, no_sample, 0};
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) {
        const double u = 2 * draw.uniform(static_cast<uint32_t>(r), static_cast<uint32_t>(c)) - 1;
        view().row(r)[c] = static_cast<float>(scale * u * ((r * 31 + c) % 97 == 0 ? 3 : 1));
      }
  }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  View<float> view() { return {memory_.data() + 1, rows_, columns_, stride_}; }
  View<float> rows(int64_t first, int64_t count) { return {view().row(first), count, columns_, stride_}; }
  double at(int64_t r, int64_t c) const { return static_cast<double>(memory_[static_cast<size_t>(1 + r * stride_ + c)]); }
  // A matrix of one row, as an array.
  float* data() { return memory_.data() + 1; }
  // Everything, the gaps between the rows included.
  const std::vector<float>& memory() const { return memory_; }
  bool same_bytes(const Matrix& o) const { return std::memcmp(memory_.data(), o.memory_.data(), memory_.size() * sizeof(float)) == 0; }
  bool gaps_untouched() const {
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = columns_; c < stride_; ++c)
        if (memory_[static_cast<size_t>(1 + r * stride_ + c)] != -77.f) return false;
    return true;
  }

 private:
  int64_t rows_, columns_, stride_;
  std::vector<float> memory_;
};

using Formula = std::function<double(int64_t, int64_t)>;

// The largest difference from the formula, relative to the largest value.
inline double error(const Matrix& m, const Formula& expected) {
  double worst = 0, largest = 1e-3;
  for (int64_t r = 0; r < m.rows(); ++r)
    for (int64_t c = 0; c < m.columns(); ++c) {
      const double e = expected(r, c);
      if (!(std::abs(m.at(r, c) - e) <= worst)) worst = std::abs(m.at(r, c) - e);
      largest = std::max(largest, std::abs(e));
    }
  return worst / largest;
}

inline const std::vector<int>& thread_counts() {
  static const std::vector<int> counts = {1, 2, 3, 8};
  return counts;
}

}  // namespace tapeformer::test
