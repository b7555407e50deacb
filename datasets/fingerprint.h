// SPDX-License-Identifier: Apache-2.0
// A short text that changes when the data or what is made of it changes: XXH3-128 of the files' bytes and of the settings.
#pragma once
#include <string>

#include "datasets/registry.h"
#include "datasets/settings.h"

namespace tapeformer::datasets {

// Of the parts to be opened. Where the files lie does not matter. A file above 1 GiB counts with its size and 64 evenly spread pieces of 1
// MiB.
std::string fingerprint(const DataSettings&, const OpenOptions&);

}  // namespace tapeformer::datasets
