// SPDX-License-Identifier: Apache-2.0
// A data set's description as JSON text, as a checkpoint keeps it.
#pragma once
#include <string>

#include "framework/data/dataset.h"

namespace tapeformer::data {

std::string description_to_json(const Description&);
// Error(checkpoint) when the text is not a description.
Description description_from_json(const std::string&);

}  // namespace tapeformer::data
