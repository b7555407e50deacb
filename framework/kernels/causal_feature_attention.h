// SPDX-License-Identifier: Apache-2.0
// Causal attention on feature maps: row i of a sequence sees the rows up to itself,
//   S_i = sum_{j <= i} g(k_j) v_j', z_i = sum_{j <= i} g(k_j), o_i = S_i' f(q_i) / den_i, den_i from z_i . f(q_i)
// (Katharopoulos, Vyas, Pappas, Fleuret 2020, 2006.16236, section 3.3), with the maps of feature_attention.h. With an offset, the shift of
// the exponents is no neutral factor: row i takes the largest exponent of the keys up to itself, so that nothing behind it has a part in
// its result. `softmax` is over the rows up to i for each column of the keys: o_i = sum_r f_ir S_ir / z_ir with g = exp(k). The last row
// equals that of feature_attention.
#pragma once
#include "framework/kernels/feature_attention.h"

namespace tapeformer::kernels {

// Shifts of a key: none, one, or one for each feature.
constexpr int shifts_per_key(FeatureMap map, int features) {
  if (map == FeatureMap::softmax) return features;
  return map == FeatureMap::positive || map == FeatureMap::hyperbolic ? 1 : 0;
}

// As in feature_attention.h, but call.key_shift is [heads][T][shifts_per_key], the largest exponents up to each row, written by the forward
// unless given.
// state: a [features + 1][head_dim + 1] for each chunk of feature_chunk_rows of each sequence, and head: [chunks][heads]. The cpu keeps
// there what stands before each chunk, S and z, and in the last row the sums of v and of 1. The reference device leaves it. denominator
// [heads][T]: z_i . f, plus epsilon where it is added (softmax: 1). o and it are overwritten.
template <class T>
struct CausalFeatureAttentionForward {
  static void reference(const Execution&, const FeatureAttentionCall<T>&, View<T> o, T* state, T* denominator);
  static void cpu(const Execution&, const FeatureAttentionCall<T>&, View<T> o, T* state, T* denominator);
};

// With n_i and e_i of feature_attention.h: df_i = S_i n_i + e_i z_i, dg_j = T_j v_j + t_j, dv_j = T_j' g_j, where T_j = sum_{i >= j} f_i
// n_i' and t_j = sum_{i >= j} e_i f_i. dq, dk, dv are overwritten; d_matrix is added to (null: nobody asked). Shifts count as constants.
template <class T>
struct CausalFeatureAttentionBackward {
  static void reference(const Execution&, const FeatureAttentionCall<T>&, View<const T> o, const T* state, const T* denominator,
                        View<const T> d_o, View<T> dq, View<T> dk, View<T> dv, T* d_matrix);
  static void cpu(const Execution&, const FeatureAttentionCall<T>&, View<const T> o, const T* state, const T* denominator,
                  View<const T> d_o, View<T> dq, View<T> dk, View<T> dv, T* d_matrix);
};

// Of all sequences.
inline int64_t feature_chunks(const Packing& packing) {
  int64_t count = 0;
  for (int b = 0; b < packing.sequences(); ++b) count += (packing.length(b) + feature_chunk_rows - 1) / feature_chunk_rows;
  return count;
}

}  // namespace tapeformer::kernels
