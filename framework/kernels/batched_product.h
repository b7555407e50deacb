// SPDX-License-Identifier: Apache-2.0
// Many products of blocks of matrices in one call: c_g (+)= alpha op(a_g) op(b_g), op being nothing or the transposition.
#pragma once
#include <span>

#include "framework/core/device.h"
#include "framework/core/tensor.h"
#include "framework/kernels/write.h"

namespace tapeformer {

// Rows row ... row + rows - 1 and columns column ... column + columns - 1 of a matrix.
struct Block {
  int64_t row = 0, rows = 0, column = 0, columns = 0;
  int64_t area() const { return rows * columns; }
};
struct ProductGroup {
  Block a, b, c;  // as they lie in memory: op(a) is [c.rows x K], op(b) is [K x c.columns]
};
// Whether no element lies in two of the blocks.
bool disjoint(std::span<const Block> blocks);

namespace kernels {

struct BatchedProductCall {
  std::span<const ProductGroup> groups;
  bool transpose_a = false, transpose_b = false;
  double alpha = 1;
};

// Where blocks of c overlap, the products are added in the order of their groups. Write::overwrite: what no block covers becomes 0.
// The bytes of a block do not depend on the other groups that do not overlap it, nor on where it lies.
template <class T>
struct BatchedProduct {
  static void reference(const Execution&, const BatchedProductCall&, View<const T> a, View<const T> b, View<T> c, Write);
  static void cpu(const Execution&, const BatchedProductCall&, View<const T> a, View<const T> b, View<T> c, Write);
};

}  // namespace kernels
}  // namespace tapeformer
