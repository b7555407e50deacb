// SPDX-License-Identifier: Apache-2.0
// Plans for patterns in which each query sees a few runs of keys: windows with holes, blocks here and there, rows that all see.
#pragma once
#include <span>

#include "framework/kernels/tile_plan.h"

namespace tapeformer::models {

struct Interval {
  int32_t first = 0, end = 0;
};

// Gathers the runs of the queries of one tile after another into masks.
class IntervalSets {
 public:
  IntervalSets(int32_t queries, int32_t keys);
  // To be called for query 0, 1, ... Runs are cut to 0 .. keys and may overlap, touch or be empty.
  void add_query(std::span<const Interval> runs);
  TilePlan finish();

 private:
  void end_tile();

  MaskedPlan plan_;
  int32_t keys_, query_ = 0;
  std::vector<TileMask> masks_;    // [key tiles], of the query tile being built
  std::vector<int32_t> touched_;  // key tiles whose mask is not empty
};

// The rows of a sequence residue by residue of a stride, and where the run of each one's residue begins and ends among them.
struct ResidueRows {
  std::vector<int32_t> rows, begin, end;
};
ResidueRows residue_rows(int32_t n, int stride);

// runs(i) gives a range of Interval for query i.
template <class Runs>
TilePlan interval_sets_plan(int32_t queries, int32_t keys, Runs&& runs) {
  IntervalSets sets(queries, keys);
  for (int32_t i = 0; i < queries; ++i) {
    const auto& of_query = runs(i);
    sets.add_query(std::span<const Interval>(of_query.data(), of_query.size()));
  }
  return sets.finish();
}

}  // namespace tapeformer::models
