// SPDX-License-Identifier: Apache-2.0
// Weighted sums of rows: checks, forward and backward.
#include "framework/ops/sparse_rows.h"

#include <algorithm>
#include <vector>

#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/in_blocks.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {
namespace {

void check(const RowMap* map, size_t which, int64_t rows, int64_t result_rows) {
  require(map && !map->begin.empty() && map->begin.front() == 0, "sparse_rows: map {} is missing or has no rows' begin", which);
  require(map->rows == rows, "sparse_rows: map {} reads {} rows, x has {}", which, map->rows, rows);
  require(map->result_rows() == result_rows, "sparse_rows: map {} gives {} rows, the first one {}", which, map->result_rows(), result_rows);
  require(std::ranges::is_sorted(map->begin) && map->begin.back() == static_cast<int64_t>(map->source.size()),
          "sparse_rows: the rows' begins of map {} do not ascend to its {} entries", which, map->source.size());
  require(map->weight.empty() || map->weight.size() == map->source.size(), "sparse_rows: map {} has {} weights for {} entries", which,
          map->weight.size(), map->source.size());
  require(std::ranges::all_of(map->source, [rows](int32_t s) { return s >= 0 && s < rows; }),
          "sparse_rows: a source of map {} is outside of 0 .. {}", which, rows - 1);
}

double entries_a_column(std::span<const RowMapPointer> maps) {
  double sum = 0;
  for (const RowMapPointer& m : maps) sum += static_cast<double>(m->source.size());
  return sum / static_cast<double>(maps.size());
}

std::vector<const RowMap*> pointers(std::span<const RowMapPointer> maps) {
  std::vector<const RowMap*> out;
  for (const RowMapPointer& m : maps) out.push_back(m.get());
  return out;
}

// Transposed maps: one that several heads share is transposed once, and all at the same time.
class Transposed {
 public:
  Transposed(const Execution& on, std::span<const RowMapPointer> maps) {
    std::vector<const RowMap*> distinct;
    std::vector<size_t> which;
    for (const RowMap* map : pointers(maps)) {
      const auto at = std::ranges::find(distinct, map);
      which.push_back(static_cast<size_t>(at - distinct.begin()));
      if (at == distinct.end()) distinct.push_back(map);
    }
    made_.resize(distinct.size());
    in_blocks(on, static_cast<int64_t>(distinct.size()), 1, [&](int64_t first, int64_t last) {
      for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i) made_[i] = transposed(*distinct[i]);
    });
    for (const size_t i : which) maps_.push_back(&made_[i]);
  }
  std::span<const RowMap* const> maps() const { return maps_; }

 private:
  std::vector<RowMap> made_;
  std::vector<const RowMap*> maps_;
};

}  // namespace

Variable sparse_rows(Context& ctx, const Variable& x, std::span<const RowMapPointer> maps, int heads) {
  check_matrix(ctx, "sparse_rows", "x", x.value);
  const int64_t rows = x.value.shape()[0], columns = x.value.shape()[1];
  require(heads >= 1 && columns % heads == 0, "sparse_rows: {} columns do not divide into {} heads", columns, heads);
  require(maps.size() == 1 || maps.size() == static_cast<size_t>(heads), "sparse_rows: {} maps for {} heads", maps.size(), heads);
  for (size_t m = 0; m < maps.size(); ++m) check(maps[m].get(), m, rows, maps[0] ? maps[0]->result_rows() : 0);
  Variable y{Tensor(ctx.dtype, {maps[0]->result_rows(), columns})};
  const ProfileScope profile(ctx, "sparse_rows", [&] { return sparse_rows_work(x.value, y.value, entries_a_column(maps)); });
  dispatch(ctx.dtype, [&]<class T>(T) {
    kernels::launch<kernels::SparseRows, T>(ctx.on, pointers(maps), x.value.matrix<const T>(), y.value.matrix<T>(),
                                            kernels::Write::overwrite);
  });
  // out = A x, so dx = A' dout.
  if (ctx.records(x))
    y.node = ctx.tape->record("sparse_rows", [node = x.node, shape = x.value.shape(), held = std::vector(maps.begin(), maps.end())](
                                                 Tape& tape, const Tensor& gradient) {
      const Transposed back(tape.execution(), held);
      const GradientTarget dx = tape.gradient_target(node, gradient.dtype(), shape);
      dispatch(gradient.dtype(), [&]<class T>(T) {
        kernels::launch<kernels::SparseRows, T>(tape.execution(), back.maps(), gradient.matrix<const T>(), dx.tensor.matrix<T>(), dx.write);
      });
    });
  return y;
}

Variable sparse_rows(Context& ctx, const Variable& x, RowMapPointer map) { return sparse_rows(ctx, x, {&map, 1}, 1); }

}  // namespace tapeformer::ops
