// SPDX-License-Identifier: Apache-2.0
// Sequences of numbers from one long table: one row a step, sequences named by a column, or windows over the rows.
#pragma once
#include <memory>

#include "datasets/registry.h"

namespace tapeformer::datasets {

bool is_series(const DataSettings&);
std::unique_ptr<data::Dataset> open_series(const DataSettings&, const OpenOptions&);

}  // namespace tapeformer::datasets
