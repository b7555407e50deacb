// SPDX-License-Identifier: Apache-2.0
// Where HDF5 files that were not made for tapeformer keep their samples: as the config says, or by the usual names.
#pragma once
#include <string>

#include "datasets/seq_part.h"
#include "datasets/settings.h"

namespace tapeformer::datasets {

// True when the source names an input, or the file neither says that it is a "seq-dataset" nor has a part of one: ours may lack /train.
bool is_foreign(const io::Hdf5File&, const Source&);

struct ForeignPaths {
  SeqPaths paths;
  std::string guessed;  // what was guessed, as a line for the report; empty when all was named
};
// Tries X and y, x and y, data and label, sequences and labels. Error(data) with what the file has when none fits.
ForeignPaths foreign_paths(const io::Hdf5File&, const Source&, data::Task);

}  // namespace tapeformer::datasets
