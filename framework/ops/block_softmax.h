// SPDX-License-Identifier: Apache-2.0
// Softmax inside blocks of a matrix: scores of single heads and sequences side by side, or the rows of each sequence.
#pragma once
#include <vector>

#include "framework/autograd/context.h"
#include "framework/kernels/block_softmax.h"

namespace tapeformer::ops {

// Each row (or column) of each block becomes its softmax, what no block covers becomes 0. Blocks must not overlap.
Variable block_softmax(Context&, const Variable& x, std::vector<Block> blocks, Axis);
// Softmax down each column over the rows of each sequence.
Variable softmax_over_rows(Context&, const Variable& x, const Packing&);

}  // namespace tapeformer::ops
