// SPDX-License-Identifier: Apache-2.0
// The draw by which an attention drops its probabilities: a key for each head, numbered as in the layer.
#pragma once
#include <vector>

#include "framework/core/random.h"
#include "framework/ops/attention.h"

namespace tapeformer::ops {

struct ProbabilityDropout {
  std::vector<uint64_t> keys;  // [heads]; none when nothing is dropped
  DropoutDraw draw;            // threshold, scale and step

  ProbabilityDropout(const Context& ctx, const AttentionSettings& s) {
    if (!ctx.draws_dropout(s.dropout)) return;
    draw.threshold = dropout_threshold(s.dropout);
    draw.scale = 1 / (1 - s.dropout);
    draw.step = ctx.step;
    for (int h = 0; h < s.heads; ++h) keys.push_back(random_key(ctx.seed, s.purpose, s.name, s.first_head + h));
  }
  const uint64_t* data() const { return keys.empty() ? nullptr : keys.data(); }
};

}  // namespace tapeformer::ops
