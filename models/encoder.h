// SPDX-License-Identifier: Apache-2.0
// A Transformer encoder: embedding, layers, and with pre-norm one more norm at the end.
#pragma once
#include "framework/nn/model.h"
#include "models/embedding.h"
#include "models/encoder_block.h"

namespace tapeformer::models {

class Encoder {
 public:
  Encoder(const nn::Builder&, const ModelSettings&, const data::Description&);
  struct Output {
    Variable x;  // [T,C], one row for each of the batch's
    std::vector<ops::Loss> auxiliary;
  };
  Output forward(Context&, const data::Batch&);
  // What each row takes of each row in one layer, [heads * n, n] for a batch of one sequence, n with the extra rows; undefined where the
  // layer has no such weights.
  Tensor attention_weights(Context&, const data::Batch&, size_t layer);
  const Attention& attention(size_t layer) const { return blocks_.at(layer)->attention(); }
  void visit(nn::Visitor&);
  void after_update(Context&);
  bool has_auxiliary() const;
  // In front of every sequence, from the first layer to the last; the output is without them.
  int extra_rows() const { return settings_.attention.extra_rows.count; }
  int prepare_inference();
  std::vector<nn::Cost> cost(const std::vector<int32_t>& lengths) const;

 private:
  // The rows that the first layer gets, and how they lie.
  Variable entrance(Context&, const data::Batch&);
  const Packing& packing_of(const data::Batch&) const;

  ModelSettings settings_;
  Embedding embedding_;
  std::optional<Parameter> extra_rows_;  // [g,C]
  std::vector<std::unique_ptr<EncoderBlock>> blocks_;
  std::optional<nn::Norm> final_norm_;
};

}  // namespace tapeformer::models
