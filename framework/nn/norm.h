// SPDX-License-Identifier: Apache-2.0
// The normalisation of one place in a model: LayerNorm or BatchNorm by config, or nothing once it has been folded away.
#pragma once
#include <variant>

#include "framework/nn/batch_norm.h"
#include "framework/nn/layer_norm.h"

namespace tapeformer::nn {

enum class NormType : uint8_t { layer_norm, batch_norm };

class Norm {
 public:
  Norm(const Builder& build, const std::string& name, int64_t channels, NormType type, const BatchNormSettings& settings);
  Variable forward(Context&, const Variable& x);
  // The LayerNorm inside, which fused ops take over; null for BatchNorm and for a folded one.
  LayerNorm* layer_norm() { return std::get_if<LayerNorm>(&norm_); }
  BatchNorm* batch_norm() { return std::get_if<BatchNorm>(&norm_); }
  // Moves a BatchNorm into the linear layers (weight, bias) that are all its readers; a LayerNorm stays. They are changed in place.
  void fold_into(const std::vector<std::pair<Tensor, Tensor>>& readers);
  void visit(Visitor&);

 private:
  std::variant<std::monostate, LayerNorm, BatchNorm> norm_;
};

}  // namespace tapeformer::nn
