// SPDX-License-Identifier: Apache-2.0
#include "datasets/registry.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "datasets/seq_dataset.h"
#include "datasets/series.h"
#include "datasets/text_table.h"
#include "framework/core/error.h"
#include "framework/core/log.h"

namespace tapeformer::datasets {

namespace {

// A relative path depends on where the command was called: what was looked for is said in full.
void check_path(const std::string& path) {
  std::error_code error, ignored;
  const std::filesystem::path name = path;
  if (path.empty() || std::filesystem::exists(name, error) || error) return;  // other faults are those of opening it
  if (name.is_absolute()) fail(ExitCode::data, "{}: no such file", printable(path));
  fail(ExitCode::data, "{}: no such file; a relative path begins at the working directory, which is {}", printable(path),
       printable(std::filesystem::current_path(ignored).string()));
}

}  // namespace

bool OpenOptions::has(data::Part part) const { return std::find(parts.begin(), parts.end(), part) != parts.end(); }

std::unique_ptr<data::Dataset> open_dataset(const DataSettings& settings, const OpenOptions& options) {
  require(options.known || options.has(data::Part::train), "a data set without its training part needs a known description");
  for (const data::Part part : options.parts) check_path(settings.source(part).path);
#define TAPEFORMER_DATASET(name) \
  if (is_##name(settings)) return open_##name(settings, options);
#include "datasets/datasets.def"
#undef TAPEFORMER_DATASET
  fail(ExitCode::usage, "no kind of data set fits the settings in `data`");
}

}  // namespace tapeformer::datasets
