// SPDX-License-Identifier: Apache-2.0
#include "models/embedding.h"

#include <cmath>

#include "framework/ops/dropout.h"

namespace tapeformer::models {
namespace {

constexpr double position_deviation = 0.02;  // Devlin et al. 2018, 1810.04805

}  // namespace

Embedding::Embedding(const nn::Builder& build, const std::string& name, const ModelSettings& s, const data::Description& d)
    : name_(name), position_(s.position), dropout_(s.dropout) {
  if (d.vocab_size > 0)
    tokens_ = build.normal(name + ".tokens.weight", {d.vocab_size, s.dim}, 1 / std::sqrt(static_cast<double>(s.dim)));
  else projection_.emplace(build, name + ".projection", d.features(), s.dim);
  if (position_ == PositionType::learned) positions_ = build.normal(name + ".positions.weight", {d.max_length, s.dim}, position_deviation);
}

Variable Embedding::forward(Context& context, const data::Batch& batch) {
  Variable x;
  if (tokens_) x = ops::embedding(context, batch.tokens, *tokens_);
  else x = projection_->forward(context, {context.dtype == Dtype::f32 ? batch.values : batch.values.converted(context.dtype), no_node});
  if (positions_) x = ops::add_learned_positions(context, x, *positions_, batch.packing);
  if (position_ == PositionType::sinusoidal) x = ops::add_sinusoidal_positions(context, x, batch.packing, sinusoids_);
  x = ops::dropout(context, x, context.dropout(dropout_, "dropout", name_, batch.packing));
  if (context.inspect) context.inspect(name_, x.value);
  return x;
}

void Embedding::visit(nn::Visitor& visitor) {
  if (tokens_) visitor.parameter(*tokens_);
  if (projection_) projection_->visit(visitor);
  if (positions_) visitor.parameter(*positions_);
}

double Embedding::forward_flops(int64_t rows) const {
  return projection_ ? 2.0 * static_cast<double>(rows * projection_->in() * projection_->out()) : 0;
}

}  // namespace tapeformer::models
