// SPDX-License-Identifier: Apache-2.0
// One class for each row: a head on every row, cross-entropy over the rows that have a tag, each with its sample's weight.
#include "models/sequence_model.h"

namespace tapeformer::models {
namespace {

class Tagger : public SequenceModel {
 public:
  Tagger(const nn::Builder& build, const ModelSettings& settings, const data::Description& description)
      : SequenceModel(build, settings, description, Reads::rows) {}

 protected:
  ops::Loss target_loss(Context& context, const Variable& output, const data::Batch& batch) override {
    return ops::cross_entropy(context, output, batch.targets,
                              {.class_weights = class_weights(context),
                               .row_weights = row_weights(batch, context.dtype),
                               .label_smoothing = context.mode == Mode::train ? settings().label_smoothing : 0});
  }
};

}  // namespace

std::unique_ptr<nn::Model> make_tagger(const nn::Builder& build, const ModelSettings& settings, const data::Description& description) {
  return std::make_unique<Tagger>(build, settings, description);
}

}  // namespace tapeformer::models
