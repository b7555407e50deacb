// SPDX-License-Identifier: Apache-2.0
// A data set as one packed HDF5 file: the sequences of a part lie one behind the other, and offsets say where each begins.
#pragma once
#include <filesystem>

#include "framework/data/dataset.h"

namespace tapeformer::tools {

// Written aside and renamed; the same data gives the same bytes. Error(resource) when it cannot be written.
void convert_to_hdf5(const data::Dataset&, const std::filesystem::path& file);

}  // namespace tapeformer::tools
