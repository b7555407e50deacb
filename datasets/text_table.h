// SPDX-License-Identifier: Apache-2.0
// Sequences of tokens from CSV, TSV or JSONL: text with a class or with numbers to predict, and words with a tag each.
#pragma once
#include <memory>

#include "datasets/registry.h"

namespace tapeformer::datasets {

bool is_text_table(const DataSettings&);
std::unique_ptr<data::Dataset> open_text_table(const DataSettings&, const OpenOptions&);

}  // namespace tapeformer::datasets
