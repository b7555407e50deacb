// SPDX-License-Identifier: Apache-2.0
// What the config says of an HDF5 file, held against what the file has. Keys that describe a table stay in a config whose table was
// converted: each is what the file says as well, or Error(data); none is passed over.
#pragma once
#include <string>
#include <vector>

#include "datasets/settings.h"
#include "framework/io/hdf5.h"

namespace tapeformer::datasets {

// Windows, weights and ids that the config names and the file lacks. `group` is that of the part in our own layout, empty in another one.
void check_keys(const io::Hdf5File&, const DataSettings&, const Source&, const std::string& group);
// Whether the file was made for this task, and its tokens by this tokenizer, of which a default says nothing.
void check_task(const io::Hdf5File&, data::Task, const Source&);
void check_tokenizer(const io::Hdf5File&, const data::TokenizerSettings&, const Source&);
// Features and targets in the order of a trained model, which finds them by their places; by the file's names, where it has some.
void check_names(const io::Hdf5File&, const data::Description& known, const Source&, bool numeric);
// The texts of a data set; none where it is missing.
std::vector<std::string> texts_of(const io::Hdf5File&, const std::string& name);
// The file's names of `count` features or targets; where it has none those of data.features or data.target, else numbered ones.
std::vector<std::string> feature_names(const io::Hdf5File&, const Source&, int64_t count);
std::vector<std::string> target_names(const io::Hdf5File&, const Source&, int64_t count);
// Classes or tags as the file numbers them; none where it has no names. With data.classes they are 0 to classes - 1.
std::vector<std::string> label_names(const io::Hdf5File&, const DataSettings&, const Source&);
// What is left of data.split for a training file: a part that is a group of the file is not cut.
Split left_to_cut(const io::Hdf5File&, const Split&, const Source&);

}  // namespace tapeformer::datasets
