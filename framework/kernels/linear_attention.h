// SPDX-License-Identifier: Apache-2.0
// Linear attention (Katharopoulos, Vyas, Pappas, Fleuret 2020, 2006.16236): f(x) = elu(x) + 1 (computed as x + 1 or exp(x), never as elu
// then + 1),
//   S = sum_j f(k_j) v_j', z = sum_j f(k_j), o_i = S' f(q_i) / (z . f(q_i) + epsilon), for each sequence and head.
#pragma once
#include "framework/core/device.h"
#include "framework/core/packing.h"
#include "framework/core/tensor.h"

namespace tapeformer::kernels {

template <class T>
struct LinearAttentionCall {
  const Packing* packing = nullptr;
  int heads = 1, head_dim = 0;
  double epsilon = 1e-6;
  View<const T> q, k, v;  // [T, heads * head_dim]
};

// o[T, heads * head_dim]; state[B][heads][head_dim][head_dim + 1] = S and, in the last column, z; denominator[heads][T]. All overwritten.
template <class T>
struct LinearAttentionForward {
  static void reference(const Execution&, const LinearAttentionCall<T>&, View<T> o, T* state, T* denominator);
  static void cpu(const Execution&, const LinearAttentionCall<T>&, View<T> o, T* state, T* denominator);
};

// With n_i = do_i / den_i and e_i = -<do_i, o_i> / den_i: df(q_i) = S n_i + e_i z; dS = sum f(q_i) n_i'; dz = sum e_i f(q_i);
// df(k_j) = dS v_j + dz; dv_j = dS' f(k_j). dq, dk, dv overwritten.
template <class T>
struct LinearAttentionBackward {
  static void reference(const Execution&, const LinearAttentionCall<T>&, View<const T> o, const T* state, const T* denominator,
                        View<const T> d_o, View<T> dq, View<T> dk, View<T> dv);
  static void cpu(const Execution&, const LinearAttentionCall<T>&, View<const T> o, const T* state, const T* denominator, View<const T> d_o,
                  View<T> dq, View<T> dk, View<T> dv);
};

}  // namespace tapeformer::kernels
