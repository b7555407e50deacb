// SPDX-License-Identifier: Apache-2.0
// The vectorised work of linear attention on a chunk of rows of one sequence, all heads.
#pragma once
#include "framework/kernels/cpu/simd/simd.h"

namespace tapeformer::simd {

// All rows start at the chunk's first row; head h lies in columns h * head_dim ...
struct LinearChunk {
  int rows = 0, heads = 1, head_dim = 0;
  ConstRows q, k, v;
};

// A packed state is [heads] times S [head_dim][linear_width] and z [linear_width], aligned to 64 bytes.
constexpr int linear_width(int head_dim) { return (head_dim + 15) / 16 * 16; }
constexpr size_t linear_state_floats(int heads, int head_dim) {
  return static_cast<size_t>(heads) * static_cast<size_t>(head_dim + 1) * static_cast<size_t>(linear_width(head_dim));
}
size_t linear_scratch(int heads, int head_dim);  // floats, aligned to 64 bytes, that each function below needs

// S = sum f(k_j) v_j' and z = sum f(k_j) over the chunk, packed.
void linear_state(const LinearChunk& chunk, float* state, float* scratch);

// o and the denominators from the sequence's whole state, which is [heads][head_dim][head_dim + 1] with z in the last column.
// denominator of row r and head h: at [h * denominator_stride + r].
void linear_output(const LinearChunk& chunk, const float* state, float epsilon, Rows o, float* denominator, ptrdiff_t denominator_stride,
                   float* scratch);

// dq, and the chunk's share of the state's gradient: dS = sum f(q_i) n_i', dz = sum e_i f(q_i), packed.
void linear_backward_queries(const LinearChunk& chunk, const float* state, ConstRows o, const float* denominator,
                             ptrdiff_t denominator_stride, ConstRows d_o, Rows dq, float* d_state, float* scratch);

// dk and dv from the whole gradient of the state, packed.
void linear_backward_keys(const LinearChunk& chunk, const float* d_state, Rows dk, Rows dv, float* scratch);

}  // namespace tapeformer::simd
