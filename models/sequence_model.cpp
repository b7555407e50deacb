// SPDX-License-Identifier: Apache-2.0
#include "models/sequence_model.h"

#include <numeric>

#include "framework/kernels/cross_entropy.h"
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

// The trainer divides everything by the group's targets, so an auxiliary mean over the group is its sum times targets / count. An auxiliary
// count grows with the rows it is taken over, extra ones included: the group's follows from the group's rows.
ops::Loss SequenceModel::loss(Context& context, const Variable& output, const data::Batch& batch) {
  ops::Loss total = target_loss(context, output, batch);
  const auto rows = [&](int64_t own, int64_t samples) { return static_cast<double>(own + samples * encoder_.extra_rows()); };
  for (const ops::Loss& extra : auxiliary_) {
    if (extra.count <= 0) continue;
    double factor = total.count / extra.count;
    if (const GroupTotals* group = context.group)
      factor = group->targets / (extra.count * rows(group->rows, group->samples) / rows(batch.packing.rows(), batch.packing.sequences()));
    total.sum = ops::add(context, total.sum, extra.sum, factor);
    total.auxiliary +=
        factor * (extra.sum.value.dtype() == Dtype::f32 ? extra.sum.value.data<float>()[0] : extra.sum.value.data<double>()[0]);
  }
  auxiliary_.clear();
  return total;
}

double SequenceModel::target_count(const data::Batch& batch) const {
  const Tensor weights = row_weights(batch, Dtype::f64);
  double count = 0;
  for (int64_t r = 0; r < batch.targets.shape()[0]; ++r) {
    double weight = weights.defined() ? weights.data<double>()[r] : 1;
    if (batch.targets.dtype() == Dtype::i32) {
      const int32_t target = batch.targets.data<int32_t>()[r];
      if (target == kernels::ignored_target) continue;
      if (!class_weights_.empty()) weight *= class_weights_.at(static_cast<size_t>(target));
    }
    count += weight;
  }
  return count;
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

Tensor SequenceModel::row_weights(const data::Batch& batch, Dtype dtype) const {
  if (!batch.weights.defined()) return {};
  if (reads_ == Reads::sequences) return batch.weights.converted(dtype);
  const Tensor of_sample = batch.weights.converted(Dtype::f64);
  std::vector<double> of_row;
  for (int b = 0; b < batch.packing.sequences(); ++b)
    of_row.insert(of_row.end(), static_cast<size_t>(batch.packing.length(b)), of_sample.data<double>()[b]);
  return Tensor::of(of_row).converted(dtype);
}

Tensor SequenceModel::class_weights(const Context& context) const {
  if (class_weights_.empty()) return {};
  const Tensor t = Tensor::of<double>(class_weights_);
  return t.converted(context.dtype);
}

}  // namespace tapeformer::models
