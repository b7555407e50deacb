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
  using Plans = std::vector<PlanPointer>;

  // To be called before the plans of a forward pass are asked for: beyond the bound all are dropped.
  void make_room() {
    constexpr size_t bound = size_t{32} << 20;
    if (bytes_ > bound) {
      plans_.clear();
      bytes_ = 0;
    }
  }
  // make() returns a vector of TilePlan.
  template <class Make>
  const Plans& get(int32_t length, int head, Make&& make) {
    auto [at, fresh] = plans_.try_emplace({length, head});
    if (fresh)
      for (TilePlan& plan : make()) {
        bytes_ += plan.bytes();
        at->second.push_back(std::make_shared<const TilePlan>(std::move(plan)));
      }
    return at->second;
  }

 private:
  std::map<std::pair<int32_t, int>, Plans> plans_;
  size_t bytes_ = 0;
};

class PlannedHeads : public Heads {
 public:
  using Heads::Heads;
  HeadOutput forward(Context&, HeadInput&) override;
  AttentionCost cost(const std::vector<int32_t>& lengths) const override;
  double pairs(int32_t n) const override;

 protected:
  // The pattern of one head, by its number in the layer, for a sequence of n rows. One of the two: a plan,
  virtual TilePlan plan(int32_t n, int head) const;
  // or several that are disjoint as sets of (query, key), of any number; together they are one softmax.
  virtual std::vector<TilePlan> parts(int32_t n, int head) const;
  // Whether heads of the group have patterns of their own; if not, they share that of the first.
  virtual bool differs_by_head() const { return false; }

 private:
  int patterns() const { return differs_by_head() ? settings().heads : 1; }
  // parts(), cut down to what causal heads may see.
  std::vector<TilePlan> seen(int32_t n, int head) const;

  PlanCache plans_;
};

}  // namespace tapeformer::models
