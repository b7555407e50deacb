// SPDX-License-Identifier: Apache-2.0
#include "datasets/labels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "datasets/number.h"
#include "framework/core/error.h"
#include "framework/core/log.h"
#include "framework/core/suggest.h"

namespace tapeformer::datasets {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

// The run of digits at the front of the text, without leading zeros; cut off the text.
std::string_view take_digits(std::string_view& text) {
  size_t n = 0;
  while (n < text.size() && digit(text[n])) ++n;
  std::string_view run = text.substr(0, n);
  text.remove_prefix(n);
  while (run.size() > 1 && run.front() == '0') run.remove_prefix(1);
  return run;
}

// Below, equal (0) or above by runs of digits and single other bytes.
int compare_words(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    if (digit(a.front()) && digit(b.front())) {
      const std::string_view x = take_digits(a), y = take_digits(b);
      if (x.size() != y.size()) return x.size() < y.size() ? -1 : 1;
      if (const int c = x.compare(y); c != 0) return c;
    } else {
      if (a.front() != b.front()) return static_cast<unsigned char>(a.front()) < static_cast<unsigned char>(b.front()) ? -1 : 1;
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  return a.empty() ? (b.empty() ? 0 : -1) : 1;
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  const std::optional<double> x = number_of(a), y = number_of(b);
  const bool a_number = x && std::isfinite(*x), b_number = y && std::isfinite(*y);
  if (a_number != b_number) return a_number;
  if (a_number && *x != *y) return *x < *y;
  if (!a_number)
    if (const int c = compare_words(a, b); c != 0) return c < 0;
  return a < b;
}

std::vector<std::string> sorted_labels(std::vector<std::string> labels) {
  std::sort(labels.begin(), labels.end(), natural_less);
  return labels;
}

Labels::Labels(std::vector<std::string> labels) : names_(std::move(labels)) {
  for (size_t i = 0; i < names_.size(); ++i) numbers_.emplace(names_[i], static_cast<int32_t>(i));
}

int32_t Labels::number(std::string_view label) const {
  const auto found = numbers_.find(label);
  return found == numbers_.end() ? -1 : found->second;
}

std::string canonical_label(std::string_view typed, int64_t classes, std::string_view where) {
  const std::string_view label = trimmed(typed);
  if (label.empty()) fail(ExitCode::data, "{}: the label is missing", where);
  if (label.find('\0') != label.npos)  // HDF5, which keeps the labels, ends a text there
    fail(ExitCode::data, "{}: the label '{}' has a NUL byte in it, which no file of the run could keep; take it out", where,
         printable(label));
  if (classes <= 0) return std::string(label);
  const std::optional<double> number = number_of(label);
  if (!number || !std::isfinite(*number) || *number != std::floor(*number))
    fail(ExitCode::data, "{}: the label '{}' is no whole number; with data.classes: {} labels are 0 to {}", where, printable(label),
         classes, classes - 1);
  if (*number < 0 || *number >= static_cast<double>(classes))
    fail(ExitCode::data, "{}: the label {} is outside 0 to {} (data.classes: {}){}", where, label, classes - 1, classes,
         *number == static_cast<double>(classes) ? "; labels count from 0, these seem to count from 1" : "");
  return fmt::format("{}", static_cast<int64_t>(*number));
}

void UnknownLabels::add(const std::string& label, int64_t row) {
  Rows& rows = rows_[label];
  if (rows.first.size() < 5) rows.first.push_back(row);
  ++rows.count;
}

void UnknownLabels::fail_if_any(std::string_view file, std::string_view column, const std::vector<std::string>& known) const {
  if (rows_.empty()) return;
  std::string list;
  size_t shown = 0;
  for (const auto& [label, rows] : rows_) {
    if (++shown > 5) break;
    const std::string near = nearest(label, known);
    list +=
        fmt::format("\n  '{}' in {} row{} ({}{}){}", printable(label), rows.count, rows.count == 1 ? "" : "s", fmt::join(rows.first, ", "),
                    rows.count > 5 ? ", ..." : "", near.empty() ? "" : fmt::format("; did you mean '{}'?", printable(near)));
  }
  if (rows_.size() > 5) list += fmt::format("\n  and {} more labels", rows_.size() - 5);
  fail(ExitCode::data, "{}: column '{}': labels that the training part does not have; correct them, or train with samples of them:{}", file,
       column, list);
}

}  // namespace tapeformer::datasets
