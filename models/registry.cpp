// SPDX-License-Identifier: Apache-2.0
#include "models/registry.h"

namespace tapeformer::models {

#define MODEL(name) std::unique_ptr<nn::Model> make_##name(const nn::Builder&, const ModelSettings&, const data::Description&);
#include "models/models.def"
#undef MODEL

std::string_view model_for(data::Task task) {
  switch (task) {
    case data::Task::classification: return "classifier";
    case data::Task::regression: return "regressor";
    case data::Task::tagging: return "tagger";
  }
  return {};
}

std::unique_ptr<nn::Model> make_model(const nn::Builder& build, const ModelSettings& settings, const data::Description& description) {
  const std::string_view wanted = model_for(description.task);
#define MODEL(name) \
  if (wanted == #name) return make_##name(build, settings, description);
#include "models/models.def"
#undef MODEL
  fail(ExitCode::internal, "no model is registered under '{}'", wanted);
}

}  // namespace tapeformer::models
