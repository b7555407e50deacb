// SPDX-License-Identifier: Apache-2.0
// The interface of a layer's attention, with its norm at the entrance and its residual at the exit. What a variant needs is stated as data;
// no caller asks which variant it holds.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/nn/layer_norm.h"
#include "framework/nn/visitor.h"
#include "framework/ops/loss.h"

namespace tapeformer::models {

// What every variant is told of its layer.
struct AttentionSettings {
  int64_t dim = 0;
  int heads = 1;           // of the layer, over all its groups
  double dropout = 0;      // of the probabilities
  bool causal = false;     // what stands behind a row changes nothing in it
  int64_t max_length = 0;  // of a sequence in the data
  int layer = 0;           // its number, from 0
  int turn = 0, turns = 1;     // its number among the layers with this variant, and how many those are
  double norm_epsilon = 1e-5;  // of norms
  int extra_rows = 0;      // learned rows in front of every sequence, part of the packing that forward() gets
};

// What stands around an attention in its block, so that the entrance and the exit can be fused with it.
struct Sublayer {
  nn::LayerNorm* norm = nullptr;  // applied to x at the entrance; null: x is used as it is
  Variable residual;              // [T,C], added at the exit
  double dropout = 0;             // of the branch before it is added
  // Rows that run beside the sequences from layer to layer, outside of norms and feed-forwards. Undefined until the first attention that keeps
  // some starts them; each such attention replaces them by those of the next layer.
  Variable* second_stream = nullptr;
};

struct AttentionOutput {
  Variable x;                        // [T,C]: residual + dropout(attention(norm(x)))
  std::vector<ops::Loss> auxiliary;  // each a sum, its weight included, and what the sum is divided by; see SequenceModel::loss
};

// Arithmetic and memory for sequences of the given lengths, without the products that Attention::projections() counts.
struct AttentionCost {
  double forward_flops = 0, backward_flops = 0;
  double saved_bytes = 0;
  AttentionCost& operator+=(const AttentionCost& other) {
    forward_flops += other.forward_flops;
    backward_flops += other.backward_flops;
    saved_bytes += other.saved_bytes;
    return *this;
  }
};

// Weights [N,C] and biases [N] that read the normalised input and are its only readers; none: it is read in another way.
using InputReaders = std::optional<std::vector<std::pair<Tensor, Tensor>>>;

class Attention {
 public:
  virtual ~Attention() = default;
  virtual AttentionOutput forward(Context&, const Variable& x, const Packing&, const Sublayer&) = 0;
  virtual void visit(nn::Visitor&) = 0;
  // Once after each update, never in forward: redraws, moves of centroids. The context has the update's number and mode train.
  virtual void after_update(Context&) {}
  virtual AttentionCost cost(const std::vector<int32_t>& lengths) const = 0;
  // Products of every row with a matrix [C,C] around the heads: query, key, value, output.
  virtual int projections() const { return 0; }
  // (query, key) pairs that a sequence of n rows makes it look at, mean over the heads; of fewer keys, n times as many as there are. n^2
  // where every row acts upon every other, with softmax or without.
  virtual double pairs(int32_t n) const { return static_cast<double>(n) * n; }
  // Whether row i of n can take anything from row j. Attentions made of heads leave it to them (Heads::allowed_in_layer).
  virtual bool mixes(int32_t /*n*/, int32_t /*i*/, int32_t /*j*/) const { return true; }
  // What each row takes of each row's value, made on demand for looking at: [heads * n, n], head by head, for one sequence x [n,C] in
  // evaluation; `around` as in forward. Undefined where rows are not mixed by a matrix of weights.
  virtual Tensor weights(Context&, const Variable& /*x*/, const Packing&, const Sublayer& /*around*/) { return {}; }
  // Whether forward() returns auxiliary losses in training.
  virtual bool has_auxiliary() const { return false; }
  // For folding a BatchNorm into them.
  virtual InputReaders input_readers() = 0;

  // The oracle, written from the formula and sharing no code with the planner. Attentions made of heads have theirs in Heads; others give
  // the output [n,C] for the normalised rows x [n,C] of one sequence, in evaluation.
  virtual std::vector<double> dense_output(int32_t /*n*/, std::span<const double> /*x*/) const { return {}; }
};

}  // namespace tapeformer::models
