// SPDX-License-Identifier: Apache-2.0
// One encoder layer: attention and feed-forward, each with its norm (before or after) and its residual.
#pragma once
#include <memory>

#include "models/settings.h"

namespace tapeformer::models {

class EncoderBlock {
 public:
  EncoderBlock(const nn::Builder&, const std::string& name, const ModelSettings&, int layer, int64_t max_length);
  // What runs from layer to layer beside the rows.
  struct Beside {
    Variable second_stream;            // see Sublayer
    std::vector<ops::Loss> auxiliary;  // appended to
  };
  // x [T,C] -> [T,C]
  Variable forward(Context&, const Variable& x, const Packing&, Beside&);
  // Of its attention for x as forward() gets it; see Attention::weights.
  Tensor attention_weights(Context&, const Variable& x, const Packing&, Beside&);
  void visit(nn::Visitor&);
  void after_update(Context& context) { attention_->after_update(context); }
  // Folds a BatchNorm before a half-layer into its first product; the number of layers that went away.
  int prepare_inference();
  Attention& attention() { return *attention_; }
  const Attention& attention() const { return *attention_; }

 private:
  std::string name_;
  NormPosition position_;
  double dropout_;
  nn::Norm attention_norm_, feed_forward_norm_;
  std::unique_ptr<Attention> attention_;
  nn::FeedForward feed_forward_;
};

}  // namespace tapeformer::models
