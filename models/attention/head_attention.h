// SPDX-License-Identifier: Apache-2.0
// The four projections around most variants: one product for q, k and v (three parameters that are rows of one matrix), the variant's
// heads, and the output projection fused with dropout and residual.
#pragma once
#include <map>
#include <memory>

#include "framework/kernels/tile_plan.h"
#include "framework/nn/linear.h"
#include "models/attention/attention.h"

namespace tapeformer::models {

class HeadAttention : public Attention {
 public:
  HeadAttention(const nn::Builder&, const std::string& name, const AttentionSettings&);
  AttentionOutput forward(Context&, const Variable& x, const Packing&, const Sublayer&) override;
  void visit(nn::Visitor&) override;
  std::vector<std::pair<Tensor, Tensor>> input_readers() override;

 protected:
  // qkv [T,3C]: q, k, v side by side, head h in columns h * D of each. Returns o [T,C].
  virtual Variable heads(Context&, const Variable& qkv, const Packing&) = 0;
  const AttentionSettings& settings() const { return settings_; }
  const std::string& name() const { return name_; }
  int64_t head_dim() const { return settings_.dim / settings_.heads; }

 private:
  std::string name_;
  AttentionSettings settings_;
  Parameter qkv_weight_, qkv_bias_;  // [3C,C], [3C]: what the op sees
  Parameter query_, key_, value_;    // its rows, under their own names
  Parameter query_bias_, key_bias_, value_bias_;
  nn::Linear output_;
};

// Plans by sequence length, made once each while they fit a bound.
class PlanCache {
 public:
  // To be called before the plans of a forward pass are asked for: beyond the bound all are dropped.
  void make_room() {
    constexpr size_t bound = size_t{32} << 20;
    if (bytes_ > bound) {
      plans_.clear();
      bytes_ = 0;
    }
  }
  template <class Make>
  PlanPointer get(int32_t length, Make&& make) {
    auto [at, fresh] = plans_.try_emplace(length);
    if (fresh) {
      at->second = std::make_shared<const TilePlan>(make(length));
      bytes_ += at->second->bytes();
    }
    return at->second;
  }

 private:
  std::map<int32_t, PlanPointer> plans_;
  size_t bytes_ = 0;
};

// Softmax attention whose pattern is a function of the sequence's length: a variant only says its plan.
class PlannedAttention : public HeadAttention {
 public:
  using HeadAttention::HeadAttention;
  AttentionCost cost(const std::vector<int32_t>& lengths) const override;

 protected:
  virtual TilePlan plan(int32_t length) const = 0;
  Variable heads(Context&, const Variable& qkv, const Packing&) override;

 private:
  PlanCache plans_;
};

}  // namespace tapeformer::models
