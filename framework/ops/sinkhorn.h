// SPDX-License-Identifier: Apache-2.0
// Sorting blocks of rows by learned matrices: Sinkhorn normalisation (Mena, Belanger, Linderman, Snoek 2018, 1802.08665), exact permutations
// with a straight-through gradient, and the mixing of blocks (Tay, Bahri, Yang, Metzler, Juan 2020, 2002.11296).
#pragma once
#include <string_view>

#include "framework/autograd/context.h"

namespace tapeformer::ops {

// One matrix for each sequence and head: with m = blocks.length(b), rows of the sequence's blocks, columns h * width ... h * width + m - 1.
// `width` is that of scores [blocks.rows(), heads * width].

// Gumbel noise -log(-log u) times `factor` for all matrices in training, undefined outside of it. The draws have the keys
// gumbel:<name>:<head>:0 with the head's number in the layer, row = block u, column = block v.
Tensor gumbel_noise(const Context&, const Packing& blocks, int heads, int64_t width, double factor, std::string_view name, int first_head);

// For each row u and head the v = p(u) of the permutation with the largest sum of scores + noise: int32 [blocks.rows(), heads]. `noise` may be
// undefined.
Tensor best_permutations(const Context&, const Tensor& scores, const Tensor& noise, const Packing& blocks, int heads);

struct SinkhornSettings {
  int heads = 1;
  double temperature = 1;
  int iterations = 1;
  bool causal = false;
};
// exp of (scores + noise) / temperature after `iterations` of normalising rows, then columns, in the log domain: nearly doubly stochastic,
// 0 outside of the matrices. Given permutations (of best_permutations), the value is those of 0 and 1, and the gradient that of the soft
// matrices (straight through: Bengio, Leonard, Courville 2013, 1308.3432). Causal: row u is the softmax over the blocks before u and
// nothing else, as a column's sum would have rows behind it; row 0 is 0.
Variable sinkhorn(Context&, const Variable& scores, const Tensor& noise, const Packing& blocks, const SinkhornSettings&,
                  const Tensor& permutations = {});

struct SortedBlocksSettings {
  int heads = 1;
  int32_t block = 1;
  int32_t most = 0;          // sorted blocks to make, from the first; 0: all
  bool own = true;           // the sequence's own rows follow
  int64_t first_column = 0;  // of x
  int64_t columns = 0;
};
struct SortedBlocks {
  Variable rows;          // [sum over b of (made * block + own rows), columns]
  Tensor weights;         // [blocks.rows(), 2 * heads]: what the slots of a sorted block were divided by; 0: the slots are empty
  const Packing* packing;  // of the rows; lives as long as `sequences`
};
// Sorted block u of the columns of x: row t is the mean of row t of all blocks v that have one, weighted by p_uv (kernels/sorted_blocks.h).
SortedBlocks sorted_blocks(Context&, const Variable& p, const Variable& x, const Packing& sequences, const Packing& blocks,
                           const SortedBlocksSettings&);

}  // namespace tapeformer::ops
