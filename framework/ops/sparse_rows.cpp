// SPDX-License-Identifier: Apache-2.0
// Weighted sums of rows: checks, forward and backward.
#include "framework/ops/sparse_rows.h"

#include <algorithm>
#include <vector>

#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
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

template <class Maps>
std::vector<const RowMap*> pointers(const Maps& maps) {
  std::vector<const RowMap*> out;
  for (const auto& m : maps) out.push_back(&*m);
  return out;
}

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
      std::vector<std::unique_ptr<RowMap>> back;
      for (const RowMapPointer& m : held) back.push_back(std::make_unique<RowMap>(transposed(*m)));
      const GradientTarget dx = tape.gradient_target(node, gradient.dtype(), shape);
      dispatch(gradient.dtype(), [&]<class T>(T) {
        kernels::launch<kernels::SparseRows, T>(tape.execution(), pointers(back), gradient.matrix<const T>(), dx.tensor.matrix<T>(),
                                                dx.write);
      });
    });
  return y;
}

Variable sparse_rows(Context& ctx, const Variable& x, RowMapPointer map) { return sparse_rows(ctx, x, {&map, 1}, 1); }

}  // namespace tapeformer::ops
