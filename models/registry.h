// SPDX-License-Identifier: Apache-2.0
// Makes the model that a task asks for.
#pragma once
#include <memory>

#include "framework/nn/model.h"
#include "models/settings.h"
#include "framework/data/dataset.h"

namespace tapeformer::models {

std::unique_ptr<nn::Model> make_model(const nn::Builder&, const ModelSettings&, const data::Description&);

// classification -> classifier, regression -> regressor, tagging -> tagger.
std::string_view model_for(data::Task);

}  // namespace tapeformer::models
