// SPDX-License-Identifier: Apache-2.0
// The projections around heads: one product for all of them (query, key, value are rows of one matrix), the groups of heads on their slices
// of it, and one output projection fused with dropout and residual.
#pragma once
#include "models/attention/heads.h"
#include "models/attention/stacked_linear.h"

namespace tapeformer::models {

// What the projection `part` of the layer starts from: [C,C].
Tensor first_projection(const nn::Builder&, const std::string& layer_name, const std::string& part, int64_t dim);

class HeadAttention : public Attention {
 public:
  // `parts` names the projections in their order, the values last; the groups' heads are those of the layer, in order.
  HeadAttention(const nn::Builder&, const std::string& name, const AttentionSettings&, std::vector<std::string> parts,
                std::vector<std::unique_ptr<Heads>> groups);
  AttentionOutput forward(Context&, const Variable& x, const Packing&, const Sublayer&) override;
  void visit(nn::Visitor&) override;
  void after_update(Context&) override;
  AttentionCost cost(const std::vector<int32_t>& lengths) const override;
  int projections() const override { return static_cast<int>(parts_.size()) + 1; }
  double pairs(int32_t n) const override;
  // The heads with columns of the identity as values, head_dim columns at a time. Heads of groups without weights have zeros.
  Tensor weights(Context&, const Variable& x, const Packing&, const Sublayer&) override;
  bool has_auxiliary() const override;
  InputReaders input_readers() override;

  // The names of what the heads read, the values last.
  const std::vector<std::string>& parts() const { return parts_; }
  // Whether some heads mix rows by a matrix of weights.
  bool any_weights() const;
  // The group that holds a head of the layer.
  const Heads& group_of(int head) const;

 private:
  HeadOutput heads(Context&, const Variable& projected, LayerInput&, bool plain_values = false);
  Variable slice(Context&, const Variable& projected, const Heads& group) const;
  int64_t head_dim() const { return settings_.dim / settings_.heads; }

  std::string name_;
  AttentionSettings settings_;
  std::vector<std::string> parts_;
  StackedLinear input_;
  std::vector<std::unique_ptr<Heads>> groups_;
  nn::Linear output_;
};

}  // namespace tapeformer::models
