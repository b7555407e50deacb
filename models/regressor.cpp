// SPDX-License-Identifier: Apache-2.0
// One or several numbers for each sequence: pooled rows, a head, mean squared error.
#include "models/sequence_model.h"

namespace tapeformer::models {
namespace {

class Regressor : public SequenceModel {
 public:
  Regressor(const nn::Builder& build, const ModelSettings& settings, const data::Description& description)
      : SequenceModel(build, settings, description, Reads::sequences) {}

 protected:
  ops::Loss target_loss(Context& context, const Variable& output, const data::Batch& batch) override {
    return ops::mean_squared_error(context, output, batch.targets, row_weights(batch, context.dtype));
  }
};

}  // namespace

std::unique_ptr<nn::Model> make_regressor(const nn::Builder& build, const ModelSettings& settings, const data::Description& description) {
  return std::make_unique<Regressor>(build, settings, description);
}

}  // namespace tapeformer::models
