// SPDX-License-Identifier: Apache-2.0
// Packed sequences in HDF5, the layout "seq-dataset" 1: a group for each part with input_ids or values and offsets (or a dense X), labels,
// and optional weights and ids. Files of other layouts are read too (foreign_hdf5.h). Read in pieces, never as a whole.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "datasets/registry.h"

namespace tapeformer::datasets {

bool is_seq_dataset(const DataSettings&);
std::unique_ptr<data::Dataset> open_seq_dataset(const DataSettings&, const OpenOptions&);

// Writes all parts of a data set to a file of that layout, aside, and renames it. Numbers are written as they were before they were
// standardised (to the bit when the data set was opened with data.standardize off), missing ones as NaN. `compress`: deflated in chunks.
// Root attributes: encoding-type, encoding-version, task, creator, created (ISO 8601; of SOURCE_DATE_EPOCH where that is set),
// source_fingerprint (of the source files and settings, see fingerprint.h), vocab_size, max_length; window_length and window_hop, where
// `window` says that the samples are windows.
void convert_to_hdf5(const data::Dataset&, const std::filesystem::path& file, bool compress = false, const Window& window = {});
// The same from the files that the settings name. Tables of texts are read once more instead of being kept in memory, HDF5 is streamed;
// tables of numbers are grouped into sequences in memory first. The report of the data set.
std::vector<std::string> convert_to_hdf5(const DataSettings&, const std::filesystem::path& file, bool compress = false);

}  // namespace tapeformer::datasets
