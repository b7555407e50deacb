// SPDX-License-Identifier: Apache-2.0
// The parts of a description that every kind of data set fills in the same way.
#pragma once
#include <string>
#include <vector>

#include "datasets/memory_dataset.h"
#include "datasets/registry.h"
#include "datasets/settings.h"
#include "framework/data/encoder.h"

namespace tapeformer::datasets {

// Task and policies, from the settings.
data::Description described(const DataSettings&);
// Labels 0 .. classes - 1 as text.
std::vector<std::string> numbered_labels(int64_t classes);
// One weight a label by the settings; empty when all are 1. `counts` are of the training part. Error(data) for a weight of an unknown
// label.
std::vector<double> class_weights(const DataSettings&, const std::vector<std::string>& labels, const std::vector<int64_t>& counts);
// Error(data): no training sample counts in the loss.
[[noreturn]] void refuse_zero_weights(const DataSettings&);
// True for a part that data.split cuts from the training file.
bool is_cut_from_training(const DataSettings&, data::Part);
// True when a part that is asked for is the training file or is cut from it.
bool needs_training_file(const DataSettings&, const OpenOptions&);
// The description to begin with: a trained model's, or the one of the settings. Error(checkpoint) when the model's is of other data.
data::Description description_to_begin(const DataSettings&, const OpenOptions&);
// Error(data) where the names are not as many as the model's, or are the same in another order. Other names are other words for them.
void check_same_order(const std::vector<std::string>& names, const std::vector<std::string>& known, const char* what, const Source&);
// Says the sizes of a part and what encoding it has cut.
void report_part(MemoryDataset&, data::Part, const data::SampleEncoder&);
// When all parts are read: longest sequence, class weights, what the parts share and lack, fingerprint.
void finish(MemoryDataset&, const DataSettings&, const OpenOptions&);

}  // namespace tapeformer::datasets
