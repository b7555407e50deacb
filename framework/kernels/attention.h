// SPDX-License-Identifier: Apache-2.0
// Softmax attention over packed sequences by tile plans (the online softmax: Milakov, Gimelshein 2018, 1805.02867; tiles: Dao et al. 2022,
// 2205.14135). Forward saves only the log-sum-exp L; the backward recomputes the probabilities in one pass over key tiles.
#pragma once
#include <span>

#include "framework/core/packing.h"
#include "framework/kernels/dropout.h"
#include "framework/kernels/tile_plan.h"
#include "framework/kernels/write.h"

namespace tapeformer::kernels {

template <class T>
struct AttentionCall {
  const Packing *queries = nullptr, *keys = nullptr;  // B sequences each; the same in self attention. Sample ids are the queries'
  // [B], shared by the heads, or [B * heads], plan b * heads + h. A plan's rows are rows of its sequence, each at most once on a side.
  std::span<const PlanPointer> plans;
  int heads = 1, head_dim = 0;  // any head_dim >= 1
  double scale = 1;             // of the scores
  View<const T> q, k, v;        // [rows, heads * head_dim], head h in columns h * head_dim ...
  // Dropout of the probabilities: row = the query's row in its sequence, column = the key's place, a key for each head; off when threshold is 0.
  const uint64_t* dropout_keys = nullptr;  // [heads]
  DropoutDraw dropout;                     // its key and arrays are not used here

  bool plan_for_each_head() const { return plans.size() != static_cast<size_t>(queries->sequences()); }
  const TilePlan& plan(int b, int h) const { return *plans[static_cast<size_t>(plan_for_each_head() ? b * heads + h : b)]; }
};

// o[rows, heads * head_dim] and lse[heads][rows] (natural logarithm, before dropout). A query without keys: o = 0, lse = +infinity.
// Write::overwrite writes every row, also those that no plan lists (as queries without keys). Write::add merges: o and lse hold a softmax
// over other pairs, and hold the one over both afterwards, o = sum of exp(L_p - L) o_p with L = log sum of exp(L_p) over the two parts p.
template <class T>
struct AttentionForward {
  static void reference(const Execution&, const AttentionCall<T>&, View<T> o, T* lse, Write);
  static void cpu(const Execution&, const AttentionCall<T>&, View<T> o, T* lse, Write);
};

// With P = exp(S - L), M the dropout factors, delta_i = <do_i, o_i>: dP = (dO V') M, dS = P (dP - delta), dV = (P M)' dO,
// dQ = scale dS K, dK = scale dS' Q. o and lse are the merged ones of all parts. Write::overwrite writes every row, with zeros where no
// plan lists it; Write::add adds to what the rows hold.
template <class T>
struct AttentionBackward {
  static void reference(const Execution&, const AttentionCall<T>&, View<const T> o, const T* lse, View<const T> d_o, View<T> dq, View<T> dk,
                        View<T> dv, Write);
  static void cpu(const Execution&, const AttentionCall<T>&, View<const T> o, const T* lse, View<const T> d_o, View<T> dq, View<T> dk,
                  View<T> dv, Write);
};

}  // namespace tapeformer::kernels
