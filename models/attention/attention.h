// SPDX-License-Identifier: Apache-2.0
// The interface of an attention variant. What a variant needs is stated here as data; no caller asks which variant it holds.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/config/section.h"
#include "framework/nn/layer_norm.h"
#include "framework/nn/visitor.h"
#include "framework/ops/loss.h"

namespace tapeformer::models {

// What every variant is told.
struct AttentionSettings {
  int64_t dim = 0;
  int heads = 1;
  double dropout = 0;      // of the probabilities
  int64_t max_length = 0;  // of a sequence in the data
};

// What stands around an attention in its block, so that the entrance and the exit can be fused with it.
struct Sublayer {
  nn::LayerNorm* norm = nullptr;  // applied to x at the entrance; null: x is used as it is
  Variable residual;              // [T,C], added at the exit
  double dropout = 0;             // of the branch before it is added
};

struct AttentionOutput {
  Variable x;                          // [T,C]: residual + dropout(attention(norm(x)))
  std::optional<ops::Loss> auxiliary;  // added to the model's loss
};

// Arithmetic and memory for sequences of the given lengths, projections left out.
struct AttentionCost {
  double forward_flops = 0, backward_flops = 0;
  double saved_bytes = 0;
};

class Attention {
 public:
  virtual ~Attention() = default;
  virtual AttentionOutput forward(Context&, const Variable& x, const Packing&, const Sublayer&) = 0;
  virtual void visit(nn::Visitor&) = 0;
  virtual void after_update(Context&) {}
  virtual AttentionCost cost(const std::vector<int32_t>& lengths) const = 0;
  // The weights that read the normalised input, for folding a BatchNorm into them: weight [N,C] and bias [N] of each reader.
  virtual std::vector<std::pair<Tensor, Tensor>> input_readers() = 0;

  // The oracle, written from the formula and sharing no code with the planner: either which keys a query may use, or (kernel methods)
  // the whole matrix of weights of one head for a sequence of n rows.
  virtual bool allowed(int32_t /*n*/, int /*head*/, int32_t /*i*/, int32_t /*j*/) const { return true; }
  // [n,n] row-major from q, k [n,D] of one head; empty for softmax variants, whose weights are softmax over allowed pairs.
  virtual std::vector<double> dense_weights(int32_t /*n*/, int /*head_dim*/, std::span<const double> /*q*/,
                                            std::span<const double> /*k*/) const {
    return {};
  }
};

// A variant as the registry holds it. Its settings live in its own file, read from its own section.
struct AttentionVariant {
  std::string_view name;
  bool has_probabilities;  // false: dropout > 0 is an error that names both keys
  // Reads the section that bears the variant's name, whether the variant is chosen or not.
  std::shared_ptr<const void> (*read)(config::Section&);
  std::unique_ptr<Attention> (*make)(const nn::Builder&, const std::string& name, const AttentionSettings&, const void* own_settings);
};

// All variants, in the order of variants.def.
std::span<const AttentionVariant> attention_variants();

}  // namespace tapeformer::models
