// SPDX-License-Identifier: Apache-2.0
// What the models share: an encoder and a head. A model says what the head reads and what its loss is.
#pragma once
#include "models/encoder.h"
#include "models/head.h"

namespace tapeformer::models {

enum class Reads : uint8_t { sequences, rows };  // pooled sequences [B,C], or every row [T,C]

class SequenceModel : public nn::Model {
 public:
  SequenceModel(const nn::Builder&, const ModelSettings&, const data::Description&, Reads);
  Variable forward(Context&, const data::Batch&) override;
  ops::Loss loss(Context&, const Variable& output, const data::Batch&) override;
  double target_count(const data::Batch&) const override;
  bool has_auxiliary() const override { return encoder_.has_auxiliary(); }
  void visit(nn::Visitor&) override;
  void after_update(Context& context) override { encoder_.after_update(context); }
  int prepare_inference() override { return encoder_.prepare_inference(); }
  std::vector<nn::Cost> cost(const std::vector<int32_t>& lengths) const override;
  Encoder& encoder() { return encoder_; }

 protected:
  virtual ops::Loss target_loss(Context&, const Variable& output, const data::Batch&) = 0;
  const ModelSettings& settings() const { return settings_; }
  // Class weights in the context's dtype, undefined where there are none.
  Tensor class_weights(const Context&) const;
  // Of each output row, its sample's; undefined where all are 1.
  Tensor row_weights(const data::Batch&, Dtype) const;

 private:
  ModelSettings settings_;
  std::vector<double> class_weights_;
  Reads reads_;
  Encoder encoder_;
  Head head_;
  std::vector<ops::Loss> auxiliary_;  // of the last forward
};

}  // namespace tapeformer::models
