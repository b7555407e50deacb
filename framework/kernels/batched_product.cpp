// SPDX-License-Identifier: Apache-2.0
// Whether blocks overlap: a line sweeps over the rows and holds the columns of the blocks that it crosses.
#include "framework/kernels/batched_product.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <vector>

namespace tapeformer {

bool disjoint(std::span<const Block> blocks) {
  struct Event {
    int64_t row;
    bool begins;  // at the same row, ends come first
    size_t block;
  };
  std::vector<Event> events;
  for (size_t i = 0; i < blocks.size(); ++i)
    if (blocks[i].area() > 0) {
      events.push_back({blocks[i].row, true, i});
      events.push_back({blocks[i].row + blocks[i].rows, false, i});
    }
  std::ranges::sort(events, {}, [](const Event& e) { return std::tuple(e.row, e.begins, e.block); });
  std::map<int64_t, int64_t> columns;  // first -> end, disjoint
  for (const Event& e : events) {
    const Block& b = blocks[e.block];
    if (!e.begins) {
      columns.erase(b.column);
      continue;
    }
    const auto next = columns.lower_bound(b.column);
    if (next != columns.end() && next->first < b.column + b.columns) return false;
    if (next != columns.begin() && std::prev(next)->second > b.column) return false;
    columns.emplace_hint(next, b.column, b.column + b.columns);
  }
  return true;
}

}  // namespace tapeformer
