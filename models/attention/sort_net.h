// SPDX-License-Identifier: Apache-2.0
// What scores the sorting of blocks in Sinkhorn attention: for each block u of a sequence, one number for each place v. Block u is known by
// its rows; in causal heads by all rows up to its first, as a row may not know those behind it.
#pragma once
#include "models/attention/heads.h"

namespace tapeformer::models {

class SortNet {
 public:
  enum class Form : uint8_t {
    linear,      // scores_u = W s_u, s_u the sum of the keys that u is known by
    two_layers,  // scores_u = W2 relu(W1 s_u + b1) + b2
    attention,   // scores_uv = <mean query that u is known by, mean key of v> / sqrt(D): any number of blocks, no parameters
  };
  // The nets with weights have an output for each of `most` blocks, of which a sequence uses the first.
  SortNet(const nn::Builder&, const HeadSettings&, Form, int64_t most);
  void visit(nn::Visitor&);
  // [blocks.rows(), heads * blocks.longest()] from projected [T, 3 * heads * D]: head h in columns h * blocks.longest() ...
  Variable scores(Context&, const Variable& projected, const Packing&, const Packing& blocks, int32_t block);

  // The same for one head of one sequence with m blocks, from the formula: [m,m].
  std::vector<double> dense_scores(const DenseInput&, int32_t block, int32_t m) const;

 private:
  Variable output(Context&, const Variable& x, int64_t first_column, const Packing& blocks);
  Variable hidden(Context&, const Variable& sums);
  Variable up_to_first(Context&, const Variable& of_blocks, const Variable& projected, const Packing&, const Packing& blocks,
                       int32_t block) const;

  Form form_;
  bool causal_;
  int heads_, first_head_, head_dim_;
  int64_t most_;
  std::optional<Parameter> up_weight_, up_bias_;  // [heads * D, D], [heads, D]
  std::optional<Parameter> weight_, bias_;        // [heads * most, D], [heads, most]
};

}  // namespace tapeformer::models
