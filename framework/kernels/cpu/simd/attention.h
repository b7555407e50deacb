// SPDX-License-Identifier: Apache-2.0
// The vectorised work of softmax attention: one head of one sequence, a run of query tiles (forward) or of key tiles (backward).
#pragma once
#include "framework/kernels/cpu/simd/simd.h"
#include "framework/kernels/tile_entry.h"

namespace tapeformer::simd {

constexpr int attention_tile = 64;  // rows of a tile, on both sides

// The probabilities of one head of one sequence that are dropped.
struct AttentionDropout {
  uint64_t key = 0;
  uint64_t threshold = 0;  // 0: nothing is dropped
  float scale = 1;
  uint32_t sample = 0, step = 0;
};

// All rows start at the sequence's first row and the head's first column.
struct AttentionUnit {
  int queries = 0, keys = 0, head_dim = 0;
  const int32_t *query_rows = nullptr, *key_rows = nullptr;      // rows of the sequence that they are; null: 0, 1, 2, ...
  const int32_t *query_places = nullptr, *key_places = nullptr;  // coordinates of dropout; null: 0, 1, 2, ...
  int first = 0, last = 0;                                       // the run: tiles of queries (forward) or keys (backward)
  int met_first = 0, met_last = 0;                               // the tiles of the other side that the run meets lie in this range
  const int32_t* begin = nullptr;                                // the plan's lists of the run's side
  const TileEntry* entries = nullptr;
  const int32_t *first_key = nullptr, *end_key = nullptr;  // null where no tile has the interval predicate
  const TileMask* masks = nullptr;
  float scale = 1;
  ConstRows q, k, v;
  AttentionDropout dropout;
  bool add = false;  // the forward merges with what o and lse hold, the backward adds to what dk and dv hold
};

// Floats between two rows of packed operands of a head, the same for each instruction set.
constexpr int attention_width(int head_dim) { return (head_dim + 15) / 16 * 16; }

// Floats of scratch that a unit needs, aligned to 64 bytes.
size_t attention_forward_scratch(const AttentionUnit& unit);
size_t attention_backward_scratch(const AttentionUnit& unit);

// Writes o and lse (natural logarithm, by rows of the sequence) for the queries of the run.
void attention_forward(const AttentionUnit& unit, Rows o, float* lse, float* scratch);

// Writes dk and dv for the keys of the run. The run's share of dq / scale, [tiles met * attention_tile][attention_width], goes to `part`.
void attention_backward(const AttentionUnit& unit, ConstRows o, const float* lse, ConstRows d_o, Rows dk, Rows dv, float* part,
                        float* scratch);

// One unit's share of dq, for the query tiles [first, last).
struct AttentionPart {
  const float* data = nullptr;
  int first = 0, last = 0;
};
// dq (+)= scale * the sum of the parts in their order for each query of the unit's plan; the sum of no parts is 0.
void attention_sum_parts(const AttentionUnit& unit, const AttentionPart* parts, int count, Rows dq);

}  // namespace tapeformer::simd
