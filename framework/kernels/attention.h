// SPDX-License-Identifier: Apache-2.0
// Softmax attention over packed sequences by tile plans (the online softmax: Milakov, Gimelshein 2018, 1805.02867; tiles: Dao et al. 2022,
// 2205.14135). Forward saves only the log-sum-exp L; the backward recomputes the probabilities in one pass over key tiles.
#pragma once
#include "framework/core/packing.h"
#include "framework/kernels/dropout.h"
#include "framework/kernels/tile_plan.h"

namespace tapeformer::kernels {

template <class T>
struct AttentionCall {
  const Packing* packing = nullptr;
  const TilePlan* const* plans = nullptr;  // [B]; sequences of one length may share a plan
  int heads = 1, head_dim = 0;             // any head_dim >= 1
  double scale = 1;                        // of the scores
  View<const T> q, k, v;                   // [T, heads * head_dim], head h in columns h * head_dim ...
  // Dropout of the probabilities: row = query's place, column = key's place in its sequence, a key for each head; off when threshold is 0.
  const uint64_t* dropout_keys = nullptr;  // [heads]
  DropoutDraw dropout;                     // its key and arrays are not used here
};

// o[T, heads * head_dim] and lse[heads][T] (natural logarithm, before dropout), overwritten. A query without keys: o = 0, lse = +infinity.
template <class T>
struct AttentionForward {
  static void reference(const Execution&, const AttentionCall<T>&, View<T> o, T* lse);
  static void cpu(const Execution&, const AttentionCall<T>&, View<T> o, T* lse);
};

// With P = exp(S - L), M the dropout factors, delta_i = <do_i, o_i>: dP = (dO V') M, dS = P (dP - delta), dV = (P M)' dO,
// dQ = scale dS K, dK = scale dS' Q. All overwritten.
template <class T>
struct AttentionBackward {
  static void reference(const Execution&, const AttentionCall<T>&, View<const T> o, const T* lse, View<const T> d_o, View<T> dq, View<T> dk,
                        View<T> dv);
  static void cpu(const Execution&, const AttentionCall<T>&, View<const T> o, const T* lse, View<const T> d_o, View<T> dq, View<T> dk,
                  View<T> dv);
};

}  // namespace tapeformer::kernels
