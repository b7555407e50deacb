// SPDX-License-Identifier: Apache-2.0
// The vectorised work of linear attention on feature maps: one head on a chunk of rows of one sequence. The formulas and what the arguments
// mean: framework/kernels/feature_attention.h.
#pragma once
#include "framework/kernels/cpu/simd/simd.h"

namespace tapeformer::simd {

// Feature maps and denominators of framework/kernels/feature_attention.h, in the same order.
enum class Feature : uint8_t { given, positive, hyperbolic, relu, trigonometric, cosine, softmax, elu };
enum class Denominate : uint8_t { add, clamp, none };

constexpr int feature_tile = 48;  // rows whose features are in cache at a time; chunks are multiples of it

struct FeatureHead {
  Feature map = Feature::given;
  int input = 0, features = 0, dims = 0, matrix_rows = 0;
  float offset = 0;
  float added_length = 0;                    // to |x|, trigonometric only
  float input_scale = 1, feature_scale = 1;  // D^(-1/4) or M^(-1/2), and M^(-1/2) or the like, as the map has them
  const float* panels = nullptr;             // W' [input x matrix_rows] packed; for maps with exp times log2 e
  const float* back_panels = nullptr;        // W [matrix_rows x input] packed
  Denominate denominator = Denominate::add;
  float epsilon = 0;
  bool shifts_given = false;
};
// The rows start at the chunk's first row and the head's first column.
struct FeatureChunk {
  int rows = 0;
  int place = 0;           // of the first row in its sequence
  float angle = 0;         // pi / 2L, cosine only
  ConstRows x, v;          // q or k; v where it is needed
  float* shift = nullptr;  // queries: one a row; keys: one a feature
};

// What a chunk adds to the state: S [features x dims] in panel layout, z, the keys' shifts (in units of log 2), the sum of v. Aligned to 64
// bytes. Offsets of the features are not in it.
struct FeaturePart {
  size_t z = 0, shift = 0, values = 0, size = 0;
  FeaturePart(int features, int dims, int columns);
};

size_t feature_scratch(const FeatureHead& head);

// The share of the chunk's keys and values; shifts are found here unless they are given.
void feature_state(const FeatureHead& head, const FeatureChunk& chunk, float* part, float* scratch);
// o and the denominators; state [features][dims + 1] with z in the last column.
void feature_output(const FeatureHead& head, const FeatureChunk& chunk, const float* state, Rows o, float* denominator, float* scratch);
// dq, and the share of dS and dz in the layout of a part. d_matrix [matrix_rows x input] in panel layout, overwritten, or null.
void feature_backward_queries(const FeatureHead& head, const FeatureChunk& chunk, const float* state, ConstRows o, const float* denominator,
                              ConstRows d_o, Rows dq, float* part, float* d_matrix, float* scratch);
// dk and dv from the whole gradient of the state, laid out as the state.
void feature_backward_keys(const FeatureHead& head, const FeatureChunk& chunk, const float* d_state, Rows dk, Rows dv, float* d_matrix,
                           float* scratch);

}  // namespace tapeformer::simd
