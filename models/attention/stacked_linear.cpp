// SPDX-License-Identifier: Apache-2.0
#include "models/attention/stacked_linear.h"

#include <algorithm>

namespace tapeformer::models {
namespace {

Parameter rows_of(const Parameter& whole, const std::string& name, int64_t first, int64_t count) {
  return {name, whole.value.rows(first, count), whole.gradient.rows(first, count), true};
}

bool any_trainable(const std::vector<Parameter>& parts) {
  return std::any_of(parts.begin(), parts.end(), [](const Parameter& p) { return p.trainable; });
}

}  // namespace

StackedLinear::StackedLinear(const nn::Builder& build, const std::vector<std::string>& names, int64_t in, int64_t out)
    : weight_(build.constant(names.front() + ".projections.weight", {static_cast<int64_t>(names.size()) * out, in}, 0)),
      bias_(build.constant(names.front() + ".projections.bias", {static_cast<int64_t>(names.size()) * out}, 0)) {
  for (size_t i = 0; i < names.size(); ++i) {
    weights_.push_back(rows_of(weight_, names[i] + ".weight", static_cast<int64_t>(i) * out, out));
    biases_.push_back(rows_of(bias_, names[i] + ".bias", static_cast<int64_t>(i) * out, out));
    nn::fill_xavier_uniform(build.seed, weights_[i].name, weights_[i].value, projection_gain);
  }
}

Parameter& StackedLinear::weight() {
  weight_.trainable = any_trainable(weights_);
  return weight_;
}

Parameter& StackedLinear::bias() {
  bias_.trainable = any_trainable(biases_);
  return bias_;
}

void StackedLinear::visit(nn::Visitor& visitor) {
  for (size_t i = 0; i < weights_.size(); ++i) {
    visitor.parameter(weights_[i]);
    visitor.parameter(biases_[i]);
  }
}

}  // namespace tapeformer::models
