// SPDX-License-Identifier: Apache-2.0
// Rows as weighted sums of other rows: out = A x with a sparse A, one for all columns or one for each head's columns. Gathering, repeating,
// permuting, means of segments and scattering are such products; the gradient is the product with the transposed A.
#pragma once
#include <span>
#include <vector>

#include "framework/core/device.h"
#include "framework/core/tensor.h"
#include "framework/kernels/write.h"

namespace tapeformer {

// A sparse matrix by rows: row r of the result sums the entries begin[r] .. begin[r + 1] - 1 in their order.
struct RowMap {
  int64_t rows = 0;               // of x
  std::vector<int32_t> begin{0};  // [rows of the result + 1]
  std::vector<int32_t> source;    // [entries], each in 0 .. rows - 1
  std::vector<double> weight;     // [entries], or empty: all 1
  int64_t result_rows() const { return static_cast<int64_t>(begin.size()) - 1; }
};
// The transposed map, each of its rows in ascending order of the rows of `map`.
RowMap transposed(const RowMap& map);

namespace kernels {

// out (+)= A x. One map: all columns; H maps: map h gives columns h * C / H ... of out [R', C] from the same of x [R, C].
template <class T>
struct SparseRows {
  static void reference(const Execution&, std::span<const RowMap* const> maps, View<const T> x, View<T> out, Write);
  static void cpu(const Execution&, std::span<const RowMap* const> maps, View<const T> x, View<T> out, Write);
};

}  // namespace kernels
}  // namespace tapeformer
