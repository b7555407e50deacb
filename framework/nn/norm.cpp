// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/norm.h"

namespace tapeformer::nn {

Norm::Norm(const Builder& build, const std::string& name, int64_t channels, NormType type, const BatchNormSettings& settings) {
  if (type == NormType::layer_norm) norm_.emplace<LayerNorm>(build, name, channels, settings.epsilon);
  else norm_.emplace<BatchNorm>(build, name, channels, settings);
}

Variable Norm::forward(Context& context, const Variable& x) {
  if (LayerNorm* layer = layer_norm()) return layer->forward(context, x);
  if (BatchNorm* batch = batch_norm()) return batch->forward(context, x);
  return x;
}

void Norm::fold_into(const std::vector<std::pair<Tensor, Tensor>>& readers) {
  if (const BatchNorm* batch = batch_norm()) {
    for (const auto& [weight, bias] : readers) batch->fold_into(weight, bias);
    norm_.emplace<std::monostate>();
  }
}

void Norm::visit(Visitor& visitor) {
  if (LayerNorm* layer = layer_norm()) layer->visit(visitor);
  if (BatchNorm* batch = batch_norm()) batch->visit(visitor);
}

}  // namespace tapeformer::nn
