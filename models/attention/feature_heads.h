// SPDX-License-Identifier: Apache-2.0
// Heads whose weights are products of features of a query and of a key, so that the sum over the keys is a state of fixed size: what their
// causal forms share (a row sees the rows up to itself, learned ones in front included), and their cost.
#pragma once
#include "models/attention/heads.h"

namespace tapeformer::models {

class FeatureHeads : public Heads {
 public:
  using Heads::Heads;

  bool in_pattern(int32_t, int, int32_t i, int32_t j) const override { return !causal() || j <= i; }

 protected:
  bool causal() const { return settings().layer.causal; }

  // With m features, made by `matrix_rows` rows of a matrix: a row and head takes products of D m for the state and the output and of D
  // rows for the features of its query and its key, twice as many in the backward, which makes the features again. Causal, sums over rows
  // are made for whole chunks, and then once more with each row reading them; forward the features of keys are made for both, backward all
  // features. A state for each sequence (causal: each chunk of rows) and head, the denominators and the shifts of exponents are kept.
  AttentionCost feature_cost(const std::vector<int32_t>& lengths, double m, double matrix_rows, bool shifts) const;
};

}  // namespace tapeformer::models
