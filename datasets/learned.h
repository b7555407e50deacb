// SPDX-License-Identifier: Apache-2.0
// The parts of a description that every kind of data set fills in the same way.
#pragma once
#include <string>
#include <vector>

#include "datasets/memory_dataset.h"
#include "datasets/settings.h"

namespace tapeformer::datasets {

// Task and policies, from the settings.
data::Description described(const DataSettings&);
// Labels 0 .. classes - 1 as text.
std::vector<std::string> numbered_labels(int64_t classes);
// One weight a label by the settings; empty when all are 1. `counts` are of the training part. Error(data) for a weight of an unknown
// label.
std::vector<double> class_weights(const DataSettings&, const std::vector<std::string>& labels, const std::vector<int64_t>& counts);
// "train: 54000 samples of 5 to 37 rows (mean 11.4)"
std::string size_line(const MemoryDataset&, data::Part);

}  // namespace tapeformer::datasets
