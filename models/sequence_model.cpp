// SPDX-License-Identifier: Apache-2.0
#include "models/sequence_model.h"

#include <numeric>

#include "framework/ops/add.h"
#include "framework/ops/pooling.h"

namespace tapeformer::models {

SequenceModel::SequenceModel(const nn::Builder& build, const ModelSettings& s, const data::Description& d, Reads reads)
    : settings_(s), class_weights_(d.class_weights), reads_(reads), encoder_(build, s, d), head_(build, "head", s, d.outputs()) {}

Variable SequenceModel::forward(Context& context, const data::Batch& batch) {
  Encoder::Output encoded = encoder_.forward(context, batch);
  auxiliary_ = std::move(encoded.auxiliary);
  if (reads_ == Reads::rows) return head_.forward(context, encoded.x, batch.packing);
  return head_.forward(context, ops::pooling(context, settings_.pooling, encoded.x, batch.packing), batch.packing.one_row_each());
}

ops::Loss SequenceModel::loss(Context& context, const Variable& output, const data::Batch& batch) {
  ops::Loss total = target_loss(context, output, batch);
  for (const ops::Loss& extra : auxiliary_) total.sum = ops::add(context, total.sum, extra.sum);
  auxiliary_.clear();
  return total;
}

void SequenceModel::visit(nn::Visitor& visitor) {
  encoder_.visit(visitor);
  head_.visit(visitor);
}

std::vector<nn::Cost> SequenceModel::cost(const std::vector<int32_t>& lengths) const {
  std::vector<nn::Cost> parts = encoder_.cost(lengths);
  parts.push_back(
      head_.cost(reads_ == Reads::rows ? std::accumulate(lengths.begin(), lengths.end(), 0.0) : static_cast<double>(lengths.size())));
  return parts;
}

Tensor SequenceModel::class_weights(const Context& context) const {
  if (class_weights_.empty()) return {};
  const Tensor t = Tensor::of<double>(class_weights_);
  return t.converted(context.dtype);
}

}  // namespace tapeformer::models
