// SPDX-License-Identifier: Apache-2.0
#include "datasets/statistics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <vector>

#include "framework/core/log.h"
#include "framework/data/tokenizer.h"

namespace tapeformer::datasets {
namespace {

using data::Part;
using data::Task;

constexpr std::array<Part, 3> all_parts{Part::train, Part::valid, Part::test};

// Ten bars of equal width over the lengths.
std::string histogram(const std::vector<int32_t>& sorted) {
  const int64_t least = sorted.front(), width = (sorted.back() - least) / 10 + 1;
  std::array<int64_t, 10> counts{};
  for (const int32_t n : sorted) ++counts[static_cast<size_t>((n - least) / width)];
  const int64_t most = *std::max_element(counts.begin(), counts.end());
  std::string text;
  for (int64_t i = 0; i < 10 && least + i * width <= sorted.back(); ++i) {
    const int64_t count = counts[static_cast<size_t>(i)];
    text += fmt::format("    {:>7} to {:<7} {:>9}  {}\n", least + i * width, std::min<int64_t>(least + (i + 1) * width - 1, sorted.back()),
                        count, std::string(static_cast<size_t>((count * 40 + most - 1) / most), '#'));
  }
  return text;
}

std::string lengths_text(const data::Dataset& dataset, Part part) {
  std::vector<int32_t> lengths;
  for (int64_t i = 0; i < dataset.size(part); ++i) lengths.push_back(dataset.length(part, i));
  std::sort(lengths.begin(), lengths.end());
  const size_t n = lengths.size();
  const double total = std::accumulate(lengths.begin(), lengths.end(), 0.0);
  const double median = n % 2 ? lengths[n / 2] : (lengths[n / 2 - 1] + lengths[n / 2]) / 2.0;
  return fmt::format("  lengths: least {}, median {}, mean {:.2f}, most {}, rows together {}\n", lengths.front(), median,
                     total / static_cast<double>(n), lengths.back(), static_cast<int64_t>(total)) +
         histogram(lengths);
}

std::string counts_text(const data::Description& d, const std::vector<int64_t>& counts, int64_t ignored) {
  const int64_t total = std::max<int64_t>(1, std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  std::string text = fmt::format("  {}:\n", d.task == Task::tagging ? "tags" : "classes");
  constexpr size_t most = 50;
  for (size_t c = 0; c < std::min(most, counts.size()); ++c)
    text += fmt::format("    {:<20} {:>9}  {:.1f} %\n", printable(d.labels[c]), counts[c],
                        100.0 * static_cast<double>(counts[c]) / static_cast<double>(total));
  if (counts.size() > most) text += fmt::format("    and {} more\n", counts.size() - most);
  if (ignored > 0) text += fmt::format("    ignored rows         {:>9}\n", ignored);
  return text;
}

std::string targets_text(const data::Dataset& dataset, Part part) {
  const data::Description& d = dataset.description();
  const auto outputs = static_cast<size_t>(d.outputs());
  std::vector<float> least(outputs, std::numeric_limits<float>::infinity()), most(outputs, -std::numeric_limits<float>::infinity());
  std::vector<double> sum(outputs);
  data::Sample s;
  for (int64_t i = 0; i < dataset.size(part); ++i) {
    dataset.read(part, i, s);
    for (size_t k = 0; k < outputs; ++k) {
      least[k] = std::min(least[k], s.target[k]);
      most[k] = std::max(most[k], s.target[k]);
      sum[k] += static_cast<double>(s.target[k]);
    }
  }
  std::string text;
  for (size_t k = 0; k < outputs; ++k)
    text += fmt::format("  target {}: least {:.6g}, mean {:.6g}, most {:.6g}\n", printable(d.target_names[k]), least[k],
                        sum[k] / static_cast<double>(dataset.size(part)), most[k]);
  return text;
}

std::string learned_text(const data::Dataset& dataset, Part part) {
  const data::Description& d = dataset.description();
  if (d.task == Task::regression) return targets_text(dataset, part);
  std::vector<int64_t> counts(d.labels.size());
  int64_t ignored = 0;
  data::Sample s;
  for (int64_t i = 0; i < dataset.size(part); ++i) {
    dataset.read(part, i, s);
    if (d.task == Task::classification) ++counts[static_cast<size_t>(s.label)];
    for (const int32_t tag : s.tags) tag < 0 ? ++ignored : ++counts[static_cast<size_t>(tag)];
  }
  return counts_text(d, counts, ignored);
}

std::string input_text(const data::Description& d) {
  if (d.vocab_size > 0) {
    const data::Tokenizer tokenizer = data::Tokenizer::from_json(d.tokenizer_json);
    std::vector<std::string> first;
    for (int32_t t = 0; t < std::min<int64_t>(d.vocab_size, 20) && tokenizer.settings().kind != data::TokenizerKind::byte; ++t)
      first.push_back(printable(tokenizer.decode(t)));
    return fmt::format("input: tokens of the {} tokenizer, vocabulary {}{}{}\n", data::name_of(tokenizer.settings().kind), d.vocab_size,
                       first.empty() ? "" : ": ", fmt::join(first, " "));
  }
  std::string text = fmt::format("input: {} features{}\n", d.features(), d.feature_mean.defined() ? ", standardised" : "");
  for (int64_t f = 0; f < d.features(); ++f) {
    text += fmt::format("  {}", printable(d.feature_names[static_cast<size_t>(f)]));
    if (d.feature_mean.defined())
      text += fmt::format(": mean {:.6g}, deviation {:.6g}", d.feature_mean.data<double>()[f], d.feature_deviation.data<double>()[f]);
    text += '\n';
  }
  return text;
}

}  // namespace

std::string statistics_text(const data::Dataset& dataset) {
  const data::Description& d = dataset.description();
  std::string text = input_text(d) + fmt::format("longest sequence: {} rows\n", d.max_length);
  for (const Part part : all_parts) {
    text += fmt::format("{}: {} samples\n", name_of(part), dataset.size(part));
    if (dataset.size(part) > 0) text += lengths_text(dataset, part) + learned_text(dataset, part);
  }
  for (const std::string& line : dataset.report()) text += line + "\n";
  return text;
}

std::string inspect_text(const data::Dataset& dataset, Part part, int64_t samples) {
  const data::Description& d = dataset.description();
  std::string text;
  data::Sample s;
  for (int64_t i = 0; i < std::min(samples, dataset.size(part)); ++i) {
    dataset.read(part, i, s);
    text += fmt::format("{} {} ({} rows)", name_of(part), printable(s.id), dataset.length(part, i));
    if (d.task == Task::classification) text += fmt::format(" label {}", printable(d.labels[static_cast<size_t>(s.label)]));
    if (d.task == Task::regression) text += fmt::format(" target {}", fmt::join(s.target, " "));
    if (s.weight != 1) text += fmt::format(" weight {}", s.weight);
    text += '\n';
    if (d.vocab_size > 0) text += fmt::format("  {}\n", printable(data::Tokenizer::from_json(d.tokenizer_json).decode(s.tokens)));
    for (size_t at = 0; at < s.values.size(); at += static_cast<size_t>(d.features()))
      text += fmt::format("  {}\n", fmt::join(s.values.begin() + static_cast<std::ptrdiff_t>(at),
                                              s.values.begin() + static_cast<std::ptrdiff_t>(at) + d.features(), " "));
    if (!s.tags.empty()) {
      std::vector<std::string> tags;
      for (const int32_t tag : s.tags) tags.push_back(tag < 0 ? "-" : printable(d.labels[static_cast<size_t>(tag)]));
      text += fmt::format("  {}\n", fmt::join(tags, " "));
    }
  }
  return text;
}

}  // namespace tapeformer::datasets
