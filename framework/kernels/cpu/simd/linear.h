// SPDX-License-Identifier: Apache-2.0
// Blocks of rows of a linear layer with what surrounds it: y = residual + dropout(norm(x) W' + b), each part optional, and its backward.
#pragma once
#include "framework/kernels/cpu/simd/panels.h"

namespace tapeformer::simd {

struct LinearRows {
  int K = 0, N = 0;
  ConstRows x;                                    // [M,K]
  const float *gain = nullptr, *shift = nullptr;  // [K]; gain null: no norm
  float epsilon = 0;
  float *mean = nullptr, *rstd = nullptr;  // [M], written where there is a norm
  const float* panels = nullptr;           // W' [K x N] packed
  const float* bias = nullptr;             // [N] or null
  DropoutRows dropout;
  ConstRows residual;  // [M,N] or null; dropout applies only with it
  Rows y;              // [M,N]; may be the residual
};
size_t linear_scratch(const LinearRows& p, int rows);
void linear_rows(const LinearRows& p, ptrdiff_t first, int rows, float* scratch);

struct LinearBackwardRows {
  int K = 0, N = 0;
  ConstRows x, dy;                                // [M,K], [M,N]; x null: only dx
  const float *gain = nullptr, *shift = nullptr;  // [K]
  const float *mean = nullptr, *rstd = nullptr;   // [M]
  DropoutRows dropout;
  const float* panels = nullptr;  // W [N x K] packed; null: neither dx nor dgain and dshift
  Rows dx;
  bool add = false;  // to dx
  Rows dz, h;        // [M,N], [M,K]: when given, dy behind the dropout and norm(x) are left there, and the part holds no dW
};
// The sums over the rows of one segment, in panel layout: dW [N x K] unless it is formed elsewhere, dbias, dgain, dshift.
struct LinearPart {
  size_t dw = 0, dbias = 0, dgain = 0, dshift = 0, size = 0;  // floats from the start of a part
  LinearPart(int K, int N, int columns, bool weights);
};
size_t linear_backward_scratch(const LinearBackwardRows& p, int rows);
// `add` is false for the first block of a part, which is not initialised. Without x no part is needed.
void linear_backward_rows(const LinearBackwardRows& p, ptrdiff_t first, int rows, float* part, bool add, float* scratch);

}  // namespace tapeformer::simd
