// SPDX-License-Identifier: Apache-2.0
// Cuts validation and test parts out of one file by a seed, every class in the same shares.
#pragma once
#include <string>
#include <vector>

#include "datasets/settings.h"
#include "framework/data/dataset.h"

namespace tapeformer::datasets {

// The part of each sample; `strata` has a sample's class, or the same word for all. Every class keeps at least one sample for training.
std::vector<data::Part> split_by_seed(const std::vector<std::string>& strata, const Split& split);

}  // namespace tapeformer::datasets
