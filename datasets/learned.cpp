// SPDX-License-Identifier: Apache-2.0
#include "datasets/learned.h"

#include <algorithm>

#include "framework/core/error.h"
#include "framework/core/log.h"
#include "framework/core/suggest.h"

namespace tapeformer::datasets {

data::Description described(const DataSettings& settings) {
  data::Description d;
  d.task = settings.task;
  d.max_length = settings.max_length;
  d.truncate = settings.truncate;
  d.empty = settings.empty;
  d.missing = settings.missing;
  if (settings.task == data::Task::regression) d.target_names = settings.train.target;
  return d;
}

std::vector<std::string> numbered_labels(int64_t classes) {
  std::vector<std::string> labels;
  for (int64_t c = 0; c < classes; ++c) labels.push_back(std::to_string(c));
  return labels;
}

std::vector<double> class_weights(const DataSettings& settings, const std::vector<std::string>& labels,
                                  const std::vector<int64_t>& counts) {
  if (settings.class_weights == ClassWeights::none && settings.label_weights.empty()) return {};
  std::vector<double> weights(labels.size(), 1);
  for (const auto& [label, weight] : settings.label_weights) {
    const auto found = std::find(labels.begin(), labels.end(), label);
    if (found == labels.end()) {
      const std::string near = nearest(label, labels);
      fail(ExitCode::data, "data.label_weights: the training part has no label '{}'{}", printable(label),
           near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
    }
    weights[static_cast<size_t>(found - labels.begin())] = weight;
  }
  if (settings.class_weights == ClassWeights::none) return weights;
  int64_t samples = 0, present = 0;
  for (const int64_t n : counts) {
    samples += n;
    present += n > 0;
  }
  for (size_t c = 0; c < counts.size(); ++c)
    if (counts[c] > 0) weights[c] = static_cast<double>(samples) / static_cast<double>(present * counts[c]);
  return weights;
}

std::string size_line(const MemoryDataset& d, data::Part part) {
  const SampleStore& s = d.store(part);
  int64_t total = 0;
  int32_t shortest = s.size() > 0 ? s.length(0) : 0;
  for (int64_t i = 0; i < s.size(); ++i) {
    total += s.length(i);
    shortest = std::min(shortest, s.length(i));
  }
  return fmt::format("{}: {} samples of {} to {} rows (mean {:.1f})", name_of(part), s.size(), shortest, s.longest(),
                     s.size() ? static_cast<double>(total) / static_cast<double>(s.size()) : 0.0);
}

}  // namespace tapeformer::datasets
