// SPDX-License-Identifier: Apache-2.0
// What a config's data looks like once read: sizes, lengths, classes, targets, vocabulary.
#pragma once
#include <string>

#include "framework/data/dataset.h"

namespace tapeformer::tools {

std::string data_stats(const data::Dataset&, bool json);

}  // namespace tapeformer::tools
