// SPDX-License-Identifier: Apache-2.0
#include "models/encoder.h"

#include <algorithm>
#include <numeric>

#include "framework/ops/extra_rows.h"

namespace tapeformer::models {
namespace {

struct Counter : nn::Visitor {
  int64_t parameters = 0;
  void parameter(Parameter& p) override { parameters += p.value.count(); }
};

}  // namespace

Encoder::Encoder(const nn::Builder& build, const ModelSettings& s, const data::Description& d)
    : settings_(s), embedding_(build, "embedding", s, d) {
  const ExtraRows& extra = s.attention.extra_rows;
  if (extra.count > 0) extra_rows_ = build.normal("encoder.extra_rows", {extra.count, s.dim}, extra.deviation);
  for (int i = 0; i < s.layers; ++i)
    blocks_.push_back(std::make_unique<EncoderBlock>(build, fmt::format("encoder.layers.{}", i), s, i, d.max_length));
  if (s.norm_position == NormPosition::pre) final_norm_.emplace(build, "encoder.final_norm", s.dim, s.norm.back(), s.batch_norm);
}

Variable Encoder::entrance(Context& context, const data::Batch& batch) {
  const Variable x = embedding_.forward(context, batch);
  return extra_rows_ ? ops::put_in_front(context, ops::parameter(context, *extra_rows_), x, batch.packing) : x;
}

const Packing& Encoder::packing_of(const data::Batch& batch) const {
  return extra_rows_ ? batch.packing.longer_by(extra_rows()) : batch.packing;
}

Encoder::Output Encoder::forward(Context& context, const data::Batch& batch) {
  Output out{entrance(context, batch), {}};
  const Packing& packing = packing_of(batch);
  EncoderBlock::Beside beside;
  for (auto& block : blocks_) out.x = block->forward(context, out.x, packing, beside);
  out.auxiliary = std::move(beside.auxiliary);
  if (final_norm_) out.x = final_norm_->forward(context, out.x);
  if (extra_rows_) out.x = ops::take_off_front(context, out.x, batch.packing, extra_rows());
  return out;
}

Tensor Encoder::attention_weights(Context& context, const data::Batch& batch, size_t layer) {
  Variable x = entrance(context, batch);
  EncoderBlock::Beside beside;
  for (size_t i = 0; i < layer; ++i) x = blocks_[i]->forward(context, x, packing_of(batch), beside);
  return blocks_.at(layer)->attention_weights(context, x, packing_of(batch), beside);
}

void Encoder::visit(nn::Visitor& visitor) {
  embedding_.visit(visitor);
  if (extra_rows_) visitor.parameter(*extra_rows_);
  for (auto& block : blocks_) block->visit(visitor);
  if (final_norm_) final_norm_->visit(visitor);
}

void Encoder::after_update(Context& context) {
  for (auto& block : blocks_) block->after_update(context);
}

bool Encoder::has_auxiliary() const {
  return std::any_of(blocks_.begin(), blocks_.end(), [](const auto& block) { return block->attention().has_auxiliary(); });
}

int Encoder::prepare_inference() {
  int folded = 0;
  for (auto& block : blocks_) folded += block->prepare_inference();
  return folded;
}

std::vector<nn::Cost> Encoder::cost(const std::vector<int32_t>& of_batch) const {
  const double own_rows = std::accumulate(of_batch.begin(), of_batch.end(), 0.0), c = static_cast<double>(settings_.dim);
  std::vector<int32_t> lengths = of_batch;
  for (int32_t& n : lengths) n += extra_rows();
  const double rows = std::accumulate(lengths.begin(), lengths.end(), 0.0);
  const double f = static_cast<double>(settings_.feed_forward.dim);
  std::vector<nn::Cost> parts;
  Counter embedding;
  const_cast<Embedding&>(embedding_).visit(embedding);
  const double entrance = embedding_.forward_flops(static_cast<int64_t>(own_rows));
  parts.push_back({"embedding", embedding.parameters + extra_rows() * settings_.dim, entrance, 2 * entrance, 4 * rows * c});
  for (size_t i = 0; i < blocks_.size(); ++i) {
    Counter block;
    blocks_[i]->visit(block);
    const AttentionCost a = blocks_[i]->attention().cost(lengths);
    double pairs = 0;
    for (const int32_t n : lengths) pairs += blocks_[i]->attention().pairs(n);
    const double projections = blocks_[i]->attention().projections(), products = 2 * rows * (projections * c * c + 2 * c * f);
    // Kept: qkv and the attention's output, the stream after each half, what enters the activation.
    parts.push_back({fmt::format("encoder.layers.{}", i), block.parameters, products + a.forward_flops, 2 * products + a.backward_flops,
                     4 * rows * ((projections + 2) * c + f) + a.saved_bytes, pairs});
  }
  if (final_norm_) {
    Counter norm;
    const_cast<nn::Norm&>(*final_norm_).visit(norm);
    parts.push_back({"encoder.final_norm", norm.parameters, 8 * rows * c, 12 * rows * c, 4 * rows * c});
  }
  return parts;
}

}  // namespace tapeformer::models
