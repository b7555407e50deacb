// SPDX-License-Identifier: Apache-2.0
// Small models and batches for tests, made from config text the way the program makes them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "framework/config/document.h"
#include "framework/data/dataset.h"
#include "framework/nn/model.h"
#include "models/registry.h"
#include "models/settings.h"

namespace tapeformer::test {

// The `model` section of a config, with overrides such as "model.layers=1".
models::ModelSettings model_settings(const std::vector<std::string>& overrides);
// The same small model with the attention of configs/listops/compare/<variant>.yaml, for tests that run for every variant.
models::ModelSettings compare_settings(std::string_view variant, std::vector<std::string> overrides = {});
// A description of token sequences: 7 tokens, 3 classes (or 2 targets), at most 300 rows.
data::Description token_description(data::Task task = data::Task::classification);
// A batch of sequences of the given lengths; the tokens are a function of the sample's id alone.
data::Batch token_batch(const data::Description&, const std::vector<int32_t>& lengths, uint32_t first_id = 0);

}  // namespace tapeformer::test
