// SPDX-License-Identifier: Apache-2.0
// Token embeddings and positions. Indices are checked here: outside the table is Error(data) that says index, row and table size.
#pragma once
#include "framework/autograd/context.h"

namespace tapeformer::ops {

// y[T,C] = table[tokens[t]]; table [V,C], tokens [T] int32.
Variable embedding(Context&, const Tensor& tokens, Parameter& table);
// y = x + table[position of the row in its sequence]; table [max_length, C]. A longer sequence is Error(data).
Variable add_learned_positions(Context&, const Variable& x, Parameter& table, const Packing&);

// The sinusoids of Vaswani et al. 2017 (1706.03762), made when a length is first met and kept: sin(pos / 10000^(2i/C)) in column 2i, cos in
// 2i + 1. For one thread at a time.
class Sinusoids {
 public:
  // [at least length, columns]
  const Tensor& table(Dtype dtype, int64_t length, int64_t columns);

 private:
  Tensor table_;
};
// y = x + the sinusoids of the row's position in its sequence.
Variable add_sinusoidal_positions(Context&, const Variable& x, const Packing&, Sinusoids&);
// The same without a table to keep: for few rows.
Variable add_sinusoidal_positions(Context&, const Variable& x, const Packing&);

}  // namespace tapeformer::ops
