// SPDX-License-Identifier: Apache-2.0
#include "models/settings.h"

#include <algorithm>

namespace tapeformer::models {
namespace {

constexpr auto probability = config::from_below(0, 1);
constexpr auto width = config::between(1, 1 << 20);

void read_norm(config::Section s, ModelSettings& out) {
  std::vector<std::string_view> words{"layer_norm", "batch_norm"};
  const std::vector<size_t> chosen =
      s.choices("type", {0}, words, "layer_norm, or batch_norm over the real rows of a batch; a list: one word a layer");
  if (chosen.size() != 1 && chosen.size() != static_cast<size_t>(out.layers))
    s.fault("type", fmt::format("'{}' lists {} norms, 'model.layers' is {}", s.path("type"), chosen.size(), out.layers));
  for (int i = 0; i < out.layers; ++i)
    out.norm.push_back(static_cast<nn::NormType>(chosen.empty() ? 0 : chosen[std::min(static_cast<size_t>(i), chosen.size() - 1)]));
  s.choice("position", out.norm_position, {{"pre", NormPosition::pre}, {"post", NormPosition::post}},
           "pre: before each half-layer and once at the end; post: after each residual addition");
  auto& bn = out.batch_norm;
  s.field("momentum", bn.momentum, config::between(0, 1), "batch_norm: weight of the old running value (PyTorch's number is 1 minus this)");
  s.field("epsilon", bn.epsilon, config::above(0), "added to the variance");
  s.field("freeze", bn.freeze, "batch_norm: use the running statistics in training too and never update them");
  s.field("freeze_from", bn.freeze_from, config::at_least(0), "batch_norm: freeze from this update on; 0: never");
  if (out.has_batch_norm() && bn.momentum < 0.5)
    s.warn("momentum",
           fmt::format("'{}' is {}: the weight of the OLD value; PyTorch's momentum is 1 minus this", s.path("momentum"), bn.momentum));
  if (!out.has_batch_norm())
    for (const char* key : {"momentum", "freeze", "freeze_from"}) s.unused(key, s.path("type"));
  else if (bn.freeze && bn.freeze_from > 0)
    s.fault("freeze_from", fmt::format("'{}' is true and '{}' is {}: frozen from the start or from an update, not both", s.path("freeze"),
                                       s.path("freeze_from"), bn.freeze_from));
}

}  // namespace

ModelSettings read_model_settings(config::Section root, int64_t max_length, data::Task task) {
  ModelSettings out;
  config::Section s = root.section("model", "the network");
  s.field("dim", out.dim, width, "width C of the rows");
  s.field("layers", out.layers, config::between(1, 1000), "encoder layers");
  s.field("dropout", out.dropout, probability, "of the embedding and of each residual branch");
  config::Section ff = s.section("feed_forward", "the feed-forward half of a layer");
  ff.field("dim", out.feed_forward.dim, width, "inner width");
  ff.choice("activation", out.feed_forward.activation,
            {{"gelu", Activation::gelu}, {"gelu_tanh", Activation::gelu_tanh}, {"relu", Activation::relu}}, "gelu is the erf form");
  ff.field("dropout", out.feed_forward.dropout, probability, "after the activation");
  read_norm(s.section("norm", "normalisation"), out);
  s.section("position", "what tells rows apart")
      .choice("type", out.position,
              {{"learned", PositionType::learned}, {"sinusoidal", PositionType::sinusoidal}, {"none", PositionType::none}},
              "learned: a table of data.max_length rows; sinusoidal: any length");
  out.attention = read_attention(s.section("attention", "the attention module"), out.dim, out.layers, max_length);
  s.choice("pooling", out.pooling, {{"mean", Pooling::mean}, {"max", Pooling::max}, {"first", Pooling::first}},
           "one row for each sequence");
  config::Section head = s.section("head", "from the encoder to the outputs");
  head.field("hidden", out.head_hidden, config::between(0, 1 << 20), "width of a hidden layer with ReLU; 0: none");
  head.field("dropout", out.head_dropout, probability, "before the last linear layer");
  s.field("label_smoothing", out.label_smoothing, probability, "of the cross-entropy in training");
  if (task == data::Task::tagging) s.unused("pooling", "data.task");
  else if (out.attention.causal && out.pooling == Pooling::first)
    s.fault("pooling",
            fmt::format("'{}' is first, but '{}' is true: the first row sees nothing of the others", s.path("pooling"),
                        s.path("attention.causal")),
            "take mean or max");
  if (task == data::Task::regression) s.unused("label_smoothing", "data.task");
  return out;
}

}  // namespace tapeformer::models
