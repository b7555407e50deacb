// SPDX-License-Identifier: Apache-2.0
// The steps of Sinkhorn normalisation in the log domain over one square matrix x [n,n] that lies by rows: what is normalised is
// exp(x - rows_u - columns_v). No step turns the matrix around.
#pragma once
#include "framework/kernels/cpu/simd/simd.h"

namespace tapeformer::simd {

struct SinkhornMatrix {
  int n = 0;
  const float* x = nullptr;
  float* scratch = nullptr;  // [2 n]
};

// rows_u = log sum over v of exp(x - columns_v).
void sinkhorn_rows(const SinkhornMatrix& m, const float* columns, float* rows);
// columns_v = log sum over u of exp(x - rows_u); p [n,n], unless null: exp(x - rows_u - columns_v), whose columns sum to 1.
void sinkhorn_columns(const SinkhornMatrix& m, const float* rows, float* columns, float* p);
// d -= exp(x - rows_u - columns_v) times the sum of d over its row, or over its column.
void sinkhorn_rows_backward(const SinkhornMatrix& m, const float* rows, const float* columns, float* d);
void sinkhorn_columns_backward(const SinkhornMatrix& m, const float* rows, const float* columns, float* d);

}  // namespace tapeformer::simd
