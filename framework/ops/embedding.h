// SPDX-License-Identifier: Apache-2.0
// Token embeddings and positions. Indices are checked here: outside the table is Error(data) that says index, row and table size.
#pragma once
#include "framework/autograd/context.h"

namespace tapeformer::ops {

// y[T,C] = table[tokens[t]]; table [V,C], tokens [T] int32.
Variable embedding(Context&, const Tensor& tokens, Parameter& table);
// y = x + table[position of the row in its sequence]; table [max_length, C]. A longer sequence is Error(data).
Variable add_learned_positions(Context&, const Variable& x, Parameter& table, const Packing&);
// y = x + the sinusoids of Vaswani et al. 2017 (1706.03762): sin(pos / 10000^(2i/C)) in column 2i, cos in 2i + 1.
Variable add_sinusoidal_positions(Context&, const Variable& x, const Packing&);

}  // namespace tapeformer::ops
