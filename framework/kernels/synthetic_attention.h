// SPDX-License-Identifier: Apache-2.0
// Softmax attention whose scores come from a table or from a product of two short rows, not from queries and keys alone (Synthesizer: Tay,
// Bahri, Metzler, Juan, Zhao, Zheng 2020, 2005.00743).
#pragma once
#include "framework/core/device.h"
#include "framework/core/packing.h"
#include "framework/core/tensor.h"
#include "framework/kernels/dropout.h"

namespace tapeformer::kernels {

// For a sequence of n rows, the score of query i for key j of head h is the sum of
//   table[h * most + i][j]                                                                  where table has data: [heads * most, most]
//   first_i[h * inner + j % inner] second_i[h * outer + j / inner]                          where first has data: [T, heads * inner], ...
//   scale <q_i, k_j> on the columns h * head_dim ... of q and k                             where q has data
template <class T>
struct SyntheticCall {
  const Packing* packing = nullptr;
  int heads = 1, head_dim = 0;
  int64_t most = 0;
  View<const T> table;
  int64_t inner = 0, outer = 0;
  View<const T> first, second;
  double scale = 1;
  View<const T> q, k;
  View<const T> v;                         // [T, heads * head_dim]
  const uint64_t* dropout_keys = nullptr;  // [heads]; rows are queries, columns keys; off when the threshold is 0
  DropoutDraw dropout;                     // its key and arrays are not used here
  bool causal = false;                     // only the keys j <= i
};

// o [T, heads * head_dim] = dropout(softmax over j of the scores) v, over all keys of a sequence or those up to the row. All rows are
// written.
template <class T>
struct SyntheticForward {
  static void reference(const Execution&, const SyntheticCall<T>&, View<T> o);
  static void cpu(const Execution&, const SyntheticCall<T>&, View<T> o);
};

// The gradients of what the call reads; each is added to, those without data are not wanted. That of the table adds the sequences in their
// order.
template <class T>
struct SyntheticGradients {
  View<T> table, first, second, q, k, v;
};
template <class T>
struct SyntheticBackward {
  static void reference(const Execution&, const SyntheticCall<T>&, View<const T> d_o, const SyntheticGradients<T>&);
  static void cpu(const Execution&, const SyntheticCall<T>&, View<const T> d_o, const SyntheticGradients<T>&);
};

}  // namespace tapeformer::kernels
