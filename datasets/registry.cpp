// SPDX-License-Identifier: Apache-2.0
#include "datasets/registry.h"

#include <algorithm>

#include "datasets/seq_dataset.h"
#include "datasets/series.h"
#include "datasets/text_table.h"
#include "framework/core/error.h"

namespace tapeformer::datasets {

bool OpenOptions::has(data::Part part) const { return std::find(parts.begin(), parts.end(), part) != parts.end(); }

std::unique_ptr<data::Dataset> open_dataset(const DataSettings& settings, const OpenOptions& options) {
  require(options.known || options.has(data::Part::train), "a data set without its training part needs a known description");
#define TAPEFORMER_DATASET(name) \
  if (is_##name(settings)) return open_##name(settings, options);
#include "datasets/datasets.def"
#undef TAPEFORMER_DATASET
  fail(ExitCode::usage, "no kind of data set fits the settings in `data`");
}

}  // namespace tapeformer::datasets
