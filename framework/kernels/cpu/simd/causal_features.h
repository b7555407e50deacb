// SPDX-License-Identifier: Apache-2.0
// The vectorised work of causal attention on feature maps: one head on a chunk of rows of one sequence, with what the chunks before it (in
// the backward: after it) have added up. The formulas: framework/kernels/causal_feature_attention.h.
#pragma once
#include "framework/kernels/cpu/simd/feature_attention.h"

namespace tapeformer::simd {

// Of exponential maps, shifts of queries are one a row, those of keys shifts_per_key() a row; `k.v` are the values. States have the layout
// [features + 1][dims + 1].
struct CausalChunk {
  FeatureChunk q, k;
  const float* neighbour = nullptr;  // shifts of the key before the chunk's first, whose scale a state has; null: there is none. In
                                     // backward_keys those of the key after its last
  // Softmax only, [rows][features] of the chunk and head: what query r reads of the state, f / z, and what it adds to the gradient of z.
  // causal_backward_queries writes them, causal_backward_keys reads them.
  Rows readers, z_gradients;
};

// Shifts of a key: none, one, or one for each feature.
constexpr int shifts_per_key(const FeatureHead& p) {
  if (p.map == Feature::softmax) return p.features;
  return p.map == Feature::positive || p.map == Feature::hyperbolic ? 1 : 0;
}

size_t causal_scratch(const FeatureHead& head);

// o and the denominators, from the state before the chunk; shifts are found here unless they are given.
void causal_output(const FeatureHead& head, const CausalChunk& chunk, const float* state, Rows o, float* denominator, float* scratch);
// dq, and the chunk's share of the gradient of all states before it, scaled as its first key, in the layout of a FeaturePart, or null.
// d_matrix [matrix_rows x input] in panel layout, overwritten, or null.
void causal_backward_queries(const FeatureHead& head, const CausalChunk& chunk, const float* state, ConstRows o, const float* denominator,
                             ConstRows d_o, Rows dq, float* part, float* d_matrix, float* scratch);
// dk and dv, from the gradient of the state after the chunk.
void causal_backward_keys(const FeatureHead& head, const CausalChunk& chunk, const float* d_state, ConstRows o, const float* denominator,
                          ConstRows d_o, Rows dk, Rows dv, float* d_matrix, float* scratch);

}  // namespace tapeformer::simd
