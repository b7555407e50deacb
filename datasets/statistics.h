// SPDX-License-Identifier: Apache-2.0
// A data set in words, for people: what `data stats` and `data inspect` print.
#pragma once
#include <string>

#include "framework/data/dataset.h"

namespace tapeformer::datasets {

// Parts, lengths (least, median, mean, most, histogram), classes with counts or ranges of targets, vocabulary, and the report of the data
// set.
std::string statistics_text(const data::Dataset&);
// The first `samples` samples of a part as the model gets them.
std::string inspect_text(const data::Dataset&, data::Part, int64_t samples);

}  // namespace tapeformer::datasets
