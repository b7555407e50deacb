// SPDX-License-Identifier: Apache-2.0
#include "datasets/row_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "datasets/number.h"
#include "framework/core/error.h"
#include "framework/core/log.h"
#include "framework/data/encoder.h"

namespace tapeformer::datasets {

RowGroups::RowGroups(const Table& table, const Source& source) : table_(table), step_name_(source.step) {
  if (!source.sequence.empty()) sequence_ = table.column(source.sequence);
  if (!source.step.empty()) step_ = table.column(source.step);
}

size_t RowGroups::add() {
  std::string name;
  if (sequence_) {
    name = std::string(trimmed(table_.text(*sequence_)));
    if (name.empty()) fail(ExitCode::data, "{}: the name of the sequence is missing", table_.where(*sequence_));
  }
  const auto [at, is_new] = numbers_.emplace(name, sequences_.size());
  if (is_new) sequences_.push_back({name, 0, {}});
  Sequence& sequence = sequences_[at->second];
  ++sequence.rows;
  if (!step_) return at->second;
  const double step = table_.number(*step_);
  if (!data::is_usable(step))
    fail(ExitCode::data, "{}: the step must be a finite number, found '{}'", table_.where(*step_), printable(table_.text(*step_)));
  sequence.steps.push_back({step, table_.row(), table_.line()});
  return at->second;
}

std::vector<size_t> RowGroups::order(size_t sequence) const {
  const Sequence& s = sequences_[sequence];
  std::vector<size_t> places(s.rows);
  std::iota(places.begin(), places.end(), size_t{0});
  if (!step_) return places;
  std::stable_sort(places.begin(), places.end(), [&](size_t a, size_t b) { return s.steps[a].value < s.steps[b].value; });
  for (size_t i = 1; i < places.size(); ++i) {
    const Step &before = s.steps[places[i - 1]], &step = s.steps[places[i]];
    if (step.value == before.value)
      fail(ExitCode::data, "{}:{}: row {}, column '{}': step {} of sequence '{}' stands in row {} too", printable(table_.path()), step.line,
           step.row, printable(step_name_), step.value, printable(s.name), before.row);
  }
  return places;
}

}  // namespace tapeformer::datasets
