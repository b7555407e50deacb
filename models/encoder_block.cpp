// SPDX-License-Identifier: Apache-2.0
#include "models/encoder_block.h"

namespace tapeformer::models {
EncoderBlock::EncoderBlock(const nn::Builder& build, const std::string& name, const ModelSettings& s, int layer, int64_t max_length)
    : name_(name),
      position_(s.norm_position),
      dropout_(s.dropout),
      attention_norm_(build, name + ".attention_norm", s.dim, s.norm[static_cast<size_t>(layer)], s.batch_norm),
      feed_forward_norm_(build, name + ".feed_forward_norm", s.dim, s.norm[static_cast<size_t>(layer)], s.batch_norm),
      attention_(make_attention(build, name + ".attention",
                                {.dim = s.dim, .max_length = max_length, .layer = layer, .norm_epsilon = s.batch_norm.epsilon},
                                s.attention)),
      feed_forward_(build, name + ".feed_forward", s.dim, s.feed_forward) {}

Variable EncoderBlock::forward(Context& context, const Variable& x, const Packing& packing, Beside& beside) {
  const bool pre = position_ == NormPosition::pre;
  const auto entrance = [&](nn::Norm& norm, const Variable& v) { return pre && !norm.layer_norm() ? norm.forward(context, v) : v; };
  const auto fused = [&](nn::Norm& norm) { return pre ? norm.layer_norm() : nullptr; };
  const auto exit = [&](nn::Norm& norm, const Variable& v) { return pre ? v : norm.forward(context, v); };

  AttentionOutput attended =
      attention_->forward(context, entrance(attention_norm_, x), packing,
                          {.norm = fused(attention_norm_), .residual = x, .dropout = dropout_, .second_stream = &beside.second_stream});
  beside.auxiliary.insert(beside.auxiliary.end(), attended.auxiliary.begin(), attended.auxiliary.end());
  const Variable middle = exit(attention_norm_, attended.x);
  if (context.inspect) context.inspect(name_ + ".attention.output", middle.value);
  const Variable y = exit(feed_forward_norm_, feed_forward_.forward(context, entrance(feed_forward_norm_, middle),
                                                                    fused(feed_forward_norm_), middle, dropout_, packing));
  if (context.inspect) context.inspect(name_ + ".feed_forward", y.value);
  return y;
}

Tensor EncoderBlock::attention_weights(Context& context, const Variable& x, const Packing& packing, Beside& beside) {
  Sublayer around;
  around.second_stream = &beside.second_stream;
  const bool pre = position_ == NormPosition::pre;
  if (pre) around.norm = attention_norm_.layer_norm();
  return attention_->weights(context, pre && !around.norm ? attention_norm_.forward(context, x) : x, packing, around);
}

void EncoderBlock::visit(nn::Visitor& visitor) {
  attention_norm_.visit(visitor);
  attention_->visit(visitor);
  feed_forward_norm_.visit(visitor);
  feed_forward_.visit(visitor);
}

int EncoderBlock::prepare_inference() {
  if (position_ != NormPosition::pre) return 0;  // after a post-norm the residual stream reads the norm's output too
  int folded = 0;
  if (const InputReaders readers = attention_->input_readers(); attention_norm_.batch_norm() && readers) {
    attention_norm_.fold_into(*readers);
    ++folded;
  }
  if (feed_forward_norm_.batch_norm()) {
    feed_forward_norm_.fold_into({{feed_forward_.up.weight.value, feed_forward_.up.bias.value}});
    ++folded;
  }
  return folded;
}

}  // namespace tapeformer::models
