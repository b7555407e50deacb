// SPDX-License-Identifier: Apache-2.0
// Opens the data set that settings describe; the kinds stand in datasets.def.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "datasets/settings.h"
#include "framework/data/dataset.h"

namespace tapeformer::datasets {

struct OpenOptions {
  // Of a trained model: labels, vocabulary, statistics and policies are its own instead of being learned from the training part.
  const data::Description* known = nullptr;
  // Others are empty and their files are not touched. Without `known` the training part must be among them.
  std::vector<data::Part> parts{data::Part::train, data::Part::valid, data::Part::test};
  bool has(data::Part part) const;
  // Where given, a data set of texts hands out its samples in their order instead of keeping them; of each it then knows the length and the
  // label alone, and read() is not for it.
  std::function<void(data::Part, const data::Sample&)> stream;
};

// Reads the data. Every fault of it is Error(data) with file, line, row and column.
std::unique_ptr<data::Dataset> open_dataset(const DataSettings&, const OpenOptions& = {});

}  // namespace tapeformer::datasets
