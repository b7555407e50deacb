// SPDX-License-Identifier: Apache-2.0
#include "datasets/learned.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "datasets/fingerprint.h"
#include "framework/core/error.h"
#include "framework/core/log.h"
#include "framework/core/suggest.h"

namespace tapeformer::datasets {
namespace {

// "train: 54000 samples of 5 to 37 rows (mean 11.4)"
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

}  // namespace

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
  if (settings.task == data::Task::regression) return {};
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
  if (settings.class_weights == ClassWeights::none) {
    bool any = labels.empty();
    for (size_t c = 0; c < labels.size(); ++c) any = any || (weights[c] > 0 && (counts.empty() || counts[c] > 0));
    if (!any) fail(ExitCode::data, "data.label_weights: every label of the training part weighs 0, so that nothing would be learned");
    return weights;
  }
  int64_t samples = 0, present = 0;
  for (const int64_t n : counts) {
    samples += n;
    present += n > 0;
  }
  for (size_t c = 0; c < counts.size(); ++c)
    if (counts[c] > 0) weights[c] = static_cast<double>(samples) / static_cast<double>(present * counts[c]);
  return weights;
}

void refuse_zero_weights(const DataSettings& settings) {
  fail(ExitCode::data, "{}: every sample of the training part has weight 0 in '{}': nothing would be learned",
       printable(settings.train.path), printable(settings.train.weight.empty() ? "weights" : settings.train.weight));
}

bool is_cut_from_training(const DataSettings& settings, data::Part part) {
  return (part == data::Part::valid && settings.split.valid > 0) || (part == data::Part::test && settings.split.test > 0);
}

bool needs_training_file(const DataSettings& settings, const OpenOptions& options) {
  return std::any_of(options.parts.begin(), options.parts.end(),
                     [&](data::Part part) { return part == data::Part::train || is_cut_from_training(settings, part); });
}

void check_same_order(const std::vector<std::string>& names, const std::vector<std::string>& known, const char* what,
                      const Source& source) {
  if (names.size() == known.size() && (names == known || !std::is_permutation(names.begin(), names.end(), known.begin()))) return;
  fail(ExitCode::data, "{}: the {} are {}, those of the model are {}, in this order", printable(source.path), what,
       printable(fmt::format("{}", fmt::join(names, ", "))), printable(fmt::format("{}", fmt::join(known, ", "))));
}

data::Description description_to_begin(const DataSettings& settings, const OpenOptions& options) {
  if (!options.known) return described(settings);
  const data::Description& d = *options.known;
  if (d.vocab_size > 0 && settings.numeric()) fail(ExitCode::checkpoint, "the model was trained on tokens, the data is numeric");
  if (d.vocab_size == 0 && !settings.numeric()) fail(ExitCode::checkpoint, "the model was trained on numeric sequences, the data is text");
  if (d.task != settings.task) fail(ExitCode::checkpoint, "the model was trained for another task than data.task says");
  for (const data::Part part : options.parts) {
    const Source& s = settings.source(part).given() ? settings.source(part) : settings.train;  // a part without a file is cut from that one
    if (d.task == data::Task::regression) check_same_order(s.target, d.target_names, "targets", s);
  }
  return d;
}

void report_part(MemoryDataset& dataset, data::Part part, const data::SampleEncoder& encoder) {
  dataset.say(size_line(dataset, part));
  if (encoder.truncated() > 0)
    dataset.say(fmt::format("{}: {} sequences cut to {} rows", name_of(part), encoder.truncated(), dataset.description().max_length));
}

void finish(MemoryDataset& dataset, const DataSettings& settings, const OpenOptions& options) {
  data::Description& d = dataset.description();
  if (d.max_length == 0)
    for (const data::Part part : options.parts) d.max_length = std::max<int64_t>(d.max_length, dataset.store(part).longest());
  if (!options.known && dataset.store(data::Part::train).weightless()) refuse_zero_weights(settings);
  if (!options.known) d.class_weights = class_weights(settings, d.labels, dataset.label_counts(data::Part::train));
  dataset.report_parts();
  d.fingerprint = fingerprint(settings, options);
}

}  // namespace tapeformer::datasets
