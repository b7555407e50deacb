// SPDX-License-Identifier: Apache-2.0
// Several projections of the same rows, each named by itself, in one matrix: one product gives them side by side.
#pragma once
#include <numbers>
#include <string>
#include <vector>

#include "framework/nn/linear.h"

namespace tapeformer::models {

// Xavier's gain for projections of queries, keys and values (Ott et al. 2019, fairseq).
constexpr double projection_gain = 1 / std::numbers::sqrt2;

class StackedLinear {
 public:
  // `names` are whole: <name>.weight [out, in] and <name>.bias [out] for each, Xavier with that gain.
  StackedLinear(const nn::Builder&, const std::vector<std::string>& names, int64_t in, int64_t out);
  // [names * out, in] and [names * out], as ops take them: trainable where any part is.
  Parameter& weight();
  Parameter& bias();
  Variable forward(Context& context, const Variable& x) { return ops::linear(context, x, weight(), &bias()); }
  void visit(nn::Visitor&);

 private:
  Parameter weight_, bias_;
  std::vector<Parameter> weights_, biases_;  // their rows
};

}  // namespace tapeformer::models
