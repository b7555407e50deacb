// SPDX-License-Identifier: Apache-2.0
// One product of two matrices anywhere in memory, either of them transposed: C (+)= alpha op(A) op(B).
#pragma once
#include "framework/kernels/cpu/simd/simd.h"

namespace tapeformer::simd {

struct Product {
  int M = 0, N = 0, K = 0;
  ConstRows a, b;  // [M,K] and [K,N], or [K,M] and [N,K] where transposed
  bool transpose_a = false, transpose_b = false;
  float alpha = 1;
  Rows c;  // [M,N]
  bool add = false;
};
// Floats, aligned to 64 bytes, that a product of at most M rows and N columns needs.
size_t product_scratch(int M, int N);
// An element's bytes depend on its row of op(A) and column of op(B) alone: the sum over k is made in fixed parts, each in ascending order.
void product(const Product& p, float* scratch);

}  // namespace tapeformer::simd
