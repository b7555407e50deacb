// SPDX-License-Identifier: Apache-2.0
// Softmax attention with scores from a table or from a product of two short rows.
#pragma once
#include "framework/ops/attention.h"

namespace tapeformer::ops {

// The sum of those that are given; see kernels/synthetic_attention.h.
struct SyntheticScores {
  Variable table;             // [heads * most, most]: row h * most + i has the scores of query i
  Variable first, second;     // [T, heads * inner], [T, heads * outer]: first_i[j % inner] second_i[j / inner]
  Variable q, k;              // [T, heads * D]: settings.scale <q_i, k_j>
  bool causal = false;        // a row sees the rows up to itself
};

// o [T, heads * D] = softmax(scores) v for each sequence and head, with dropout of the probabilities. No array of scores is ever in memory.
Variable synthetic_attention(Context&, const SyntheticScores&, const Variable& v, const Packing&, const AttentionSettings&);

}  // namespace tapeformer::ops
