// SPDX-License-Identifier: Apache-2.0
// Softmax heads whose pattern is a function of the sequence's length and of the head: a variant only says its plan.
#pragma once
#include <map>

#include "framework/kernels/tile_plan.h"
#include "models/attention/heads.h"

namespace tapeformer::models {

// Plans by sequence length and head, made once each while they fit a bound.
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
  PlanPointer get(int32_t length, int head, Make&& make) {
    auto [at, fresh] = plans_.try_emplace({length, head});
    if (fresh) {
      at->second = std::make_shared<const TilePlan>(make());
      bytes_ += at->second->bytes();
    }
    return at->second;
  }

 private:
  std::map<std::pair<int32_t, int>, PlanPointer> plans_;
  size_t bytes_ = 0;
};

class PlannedHeads : public Heads {
 public:
  using Heads::Heads;
  HeadOutput forward(Context&, HeadInput&) override;
  AttentionCost cost(const std::vector<int32_t>& lengths) const override;
  double pairs(int32_t n) const override;

 protected:
  virtual TilePlan plan(int32_t length) const = 0;

 private:
  PlanCache plans_;
};

}  // namespace tapeformer::models
