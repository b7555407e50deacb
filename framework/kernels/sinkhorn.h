// SPDX-License-Identifier: Apache-2.0
// Sinkhorn normalisation of square matrices in the log domain (Sinkhorn 1964; Mena, Belanger, Linderman, Snoek 2018, 1802.08665).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "framework/core/device.h"
#include "framework/core/packing.h"
#include "framework/core/tensor.h"
#include "framework/kernels/write.h"

namespace tapeformer {

// The permutation p of 0 ... n - 1 with the largest sum of scores[u][p(u)], scores [n,n] row-major: the exact solution in O(n^3) steps
// (Kuhn 1955, Munkres 1957, in the form with shortest paths). What is not finite counts as 0.
std::vector<int32_t> best_assignment(std::span<const double> scores, int32_t n);

namespace kernels {

// Matrices of one size for each sequence and head: that of sequence b, with m_b = blocks->length(b) rows, has the rows of the packing, and
// that of head h the columns h * width ... h * width + m_b - 1.
struct SinkhornCall {
  const Packing* blocks = nullptr;
  int heads = 1;
  int64_t width = 0;  // at least blocks->longest()
  double temperature = 1;
  int iterations = 1;
  bool causal = false;  // see SinkhornForward
};

// L = (scores + noise) / temperature, then `iterations` times: from each row its log-sum-exp, then from each column its own. p = exp(L)
// [rows, heads * width], 0 outside of the matrices. `noise` without data: none. Causal: row u of p is the softmax of L over the columns
// before u instead, 0 from there on.
template <class T>
struct SinkhornForward {
  static void reference(const Execution&, const SinkhornCall&, View<const T> scores, View<const T> noise, View<T> p);
  static void cpu(const Execution&, const SinkhornCall&, View<const T> scores, View<const T> noise, View<T> p);
};

// From dp: dL = p dp, then the steps backwards, each dL -= exp(L) times the sums of dL along the axis that was normalised; dscores (+)= dL
// / temperature, and 0 outside of the matrices. L is computed again. Causal: dL_uv = p_uv (dp_uv - sum over w of p_uw dp_uw).
template <class T>
struct SinkhornBackward {
  static void reference(const Execution&, const SinkhornCall&, View<const T> scores, View<const T> noise, View<const T> dp, View<T> dscores,
                        Write);
  static void cpu(const Execution&, const SinkhornCall&, View<const T> scores, View<const T> noise, View<const T> dp, View<T> dscores, Write);
};

}  // namespace kernels
}  // namespace tapeformer
