// SPDX-License-Identifier: Apache-2.0
// A batch of one row has no variance for BatchNorm: found before anything is computed, and not when the data come to it.
#pragma once
#include <string_view>

#include "tools/experiment.h"

namespace tapeformer::tools {

// Error(data) where the updates would meet such a batch, or the evaluations of the validation part with eval.batchnorm: batch.
void refuse_training_on_one_row(const Experiment&, nn::Model&, const data::Dataset&);

// Error(data) where a pass through the part in its order would, with a model of this step that uses each batch's own statistics. `instead`:
// what to do about it.
void refuse_passes_over_one_row(nn::Model&, const data::Dataset&, data::Part, int64_t step, int64_t batch_size, std::string_view instead);

}  // namespace tapeformer::tools
