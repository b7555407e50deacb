// SPDX-License-Identifier: Apache-2.0
// Linear attention on feature maps f of the queries and g of the keys: for each sequence and head
//   S = sum_j g(k_j) v_j', z = sum_j g(k_j), o_i = S' f(q_i) / den_i, den_i from z . f(q_i).
#pragma once
#include "framework/core/device.h"
#include "framework/core/packing.h"
#include "framework/core/tensor.h"

namespace tapeformer {

// With x a row of one head's q or k, W its matrix, w_r the rows of W, and M the number of features. A shift c never changes the result but
// through `offset`; it keeps exp in range and counts as a constant in the backward.
enum class FeatureMap : uint8_t {
  given,       // x itself: M = input_dim
  positive,    // y = x / D^(1/4), u_r = w_r . y - |y|^2 / 2, f_r = (exp(u_r - c) + offset) / sqrt(M) (Choromanski et al. 2020, 2009.14794)
  hyperbolic,  // the same with +w_r in the first half of the features and -w_r in the second
  relu,        // f_r = max(0, w_r . x / sqrt(M)) + offset
  trigonometric,  // y = x / (|x| + 0.001), f = sqrt(2 / M) (sin w_r . y in the first half, cos w_r . y in the second) (2103.02143)
  cosine,         // row i of a sequence of constant L: max(0, x) times sin(pi (i + 1) / 2L), and times cos of it (2202.08791)
  softmax,        // f = softmax of x over its columns, g = softmax of each column of k over the sequence (Shen et al. 2018, 1812.01243)
  elu,            // f = elu(x) + 1, computed as x + 1 or exp(x) (Katharopoulos et al. 2020, 2006.16236)
};
enum class Denominator : uint8_t {
  add,    // z . f + epsilon
  clamp,  // max(|z . f|, epsilon)
  none,   // 1
};

constexpr double trigonometric_norm = 1e-3;  // added to |x|
constexpr int32_t feature_chunk_rows = 480;  // of a sequence, that the cpu takes as one task
// Rows of W for M features, 0 where the map has no matrix.
constexpr int matrix_rows(FeatureMap map, int features) {
  if (map == FeatureMap::positive || map == FeatureMap::relu) return features;
  return map == FeatureMap::hyperbolic || map == FeatureMap::trigonometric ? features / 2 : 0;
}

namespace kernels {

template <class T>
struct FeatureAttentionCall {
  const Packing* packing = nullptr;
  int heads = 1, input_dim = 0, features = 0, head_dim = 0;
  FeatureMap map = FeatureMap::given;
  double offset = 0;
  Denominator denominator = Denominator::add;
  double epsilon = 0;
  const T* matrix = nullptr;        // [heads][matrix_rows][input_dim]
  const double* lengths = nullptr;  // [B], cosine only
  View<const T> q, k, v;            // [T, heads * input_dim], the same, [T, heads * head_dim]
  // The shifts c of exp, in natural units: of a query the largest u_r, of the keys of a sequence and head the largest of all (softmax: the
  // log-sum-exp of each column). The forward writes them unless they are given; the backward reads them. Maps without exp leave them.
  T* query_shift = nullptr;  // [heads][T]
  T* key_shift = nullptr;    // [B][heads][features]
  bool shifts_given = false;
};

// o [T, heads * head_dim]; state [B][heads][features][head_dim + 1] = S and, in the last column, z; denominator [heads][T]: z . f, plus
// epsilon where it is added. All overwritten.
template <class T>
struct FeatureAttentionForward {
  static void reference(const Execution&, const FeatureAttentionCall<T>&, View<T> o, T* state, T* denominator);
  static void cpu(const Execution&, const FeatureAttentionCall<T>&, View<T> o, T* state, T* denominator);
};

// With n_i = do_i / den_i and e_i = -<do_i, o_i> / den_i (times the sign of z . f, and 0 where a clamp acts): df_i = S n_i + e_i z,
// dS = sum f_i n_i', dz = sum e_i f_i, dg_j = dS v_j + dz, dv_j = dS' g_j. dq, dk, dv are overwritten; d_matrix, laid out as the matrix, is
// added to (null: nobody asked).
template <class T>
struct FeatureAttentionBackward {
  static void reference(const Execution&, const FeatureAttentionCall<T>&, View<const T> o, const T* state, const T* denominator,
                        View<const T> d_o, View<T> dq, View<T> dk, View<T> dv, T* d_matrix);
  static void cpu(const Execution&, const FeatureAttentionCall<T>&, View<const T> o, const T* state, const T* denominator,
                  View<const T> d_o, View<T> dq, View<T> dk, View<T> dv, T* d_matrix);
};

}  // namespace kernels
}  // namespace tapeformer
