// SPDX-License-Identifier: Apache-2.0
// Weighted sums of rows on the cpu device: tasks of whole rows of the result with about equal work.
#include "framework/kernels/sparse_rows.h"

#include <vector>

#include "framework/core/parallel.h"
#include "framework/kernels/cpu/blocks.h"
#include "framework/kernels/cpu/simd/sparse_rows.h"

namespace tapeformer::kernels {
namespace {

struct Task {
  size_t map;
  int64_t first, last;
};

std::vector<Task> cut(std::span<const RowMap* const> maps, int64_t rows, int64_t columns) {
  constexpr int64_t work = 32768;  // elements read or written by one task
  std::vector<Task> tasks;
  for (size_t m = 0; m < maps.size(); ++m) {
    const RowMap& map = *maps[m];
    int64_t first = 0;
    for (int64_t r = 0; r < rows; ++r)
      if (r + 1 == rows ||
          (map.begin[static_cast<size_t>(r) + 1] - map.begin[static_cast<size_t>(first)] + r + 1 - first) * columns >= work) {
        tasks.push_back({m, first, r + 1});
        first = r + 1;
      }
  }
  return tasks;
}

}  // namespace

template <>
void SparseRows<float>::cpu(const Execution& on, std::span<const RowMap* const> maps, View<const float> x, View<float> out, Write write) {
  const int64_t columns = x.columns / static_cast<int64_t>(maps.size());
  const std::vector<Task> tasks = cut(maps, out.rows, columns);
  on.threads->run(static_cast<int64_t>(tasks.size()), [&](int64_t t) {
    const Task& task = tasks[static_cast<size_t>(t)];
    const RowMap& map = *maps[task.map];
    const int64_t first = static_cast<int64_t>(task.map) * columns;
    simd::SparseRowsCall call;
    call.columns = static_cast<int>(columns);
    call.begin = map.begin.data();
    call.source = map.source.data();
    call.weight = map.weight.empty() ? nullptr : map.weight.data();
    call.x = {x.data + first, x.stride};
    call.out = {out.data + first, out.stride};
    call.add = write == Write::add;
    simd::sparse_rows(call, task.first, task.last);
  });
}

}  // namespace tapeformer::kernels
