// SPDX-License-Identifier: Apache-2.0
// Views or copies of columns, and their way back.
#include "framework/ops/columns.h"

#include "framework/kernels/copy_rows.h"
#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/gradient.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {
namespace {

// All rows of x into y.
void copy(const Execution& on, const Tensor& x, const Tensor& y, kernels::Write write) {
  const kernels::RowRun all{0, 0, x.shape()[0]};
  dispatch(x.dtype(),
           [&]<class T>(T) { kernels::launch<kernels::CopyRows, T>(on, std::span(&all, 1), x.matrix<const T>(), y.matrix<T>(), write); });
}

// Prepares dx for what the ranges bring, and says how they bring it: ranges that ascend and do not overlap overwrite, and only what lies
// between them is cleared.
kernels::Write prepare(const Execution& on, const GradientTarget& dx, const std::vector<ColumnRange>& ranges) {
  if (dx.write == kernels::Write::add) return dx.write;
  std::vector<ColumnRange> between;
  int64_t end = 0;
  for (const ColumnRange& r : ranges) {
    if (r.first < end) {
      clear(on, dx.tensor);
      return kernels::Write::add;
    }
    between.push_back({end, r.first - end});
    end = r.first + r.count;
  }
  between.push_back({end, dx.tensor.shape()[1] - end});
  for (const ColumnRange& r : between) clear(on, dx.tensor.columns(r.first, r.count));
  return kernels::Write::overwrite;
}

}  // namespace

Variable columns(Context& ctx, const Variable& x, const std::vector<ColumnRange>& ranges) {
  check_matrix(ctx, "columns", "x", x.value);
  int64_t count = 0;
  for (const ColumnRange& r : ranges) {
    require(r.first >= 0 && r.count >= 1 && r.first + r.count <= x.value.shape()[1], "columns: [{}, {}) of {} columns", r.first,
            r.first + r.count, x.value.shape()[1]);
    count += r.count;
  }
  const bool view = ranges.size() == 1;
  Variable y{view ? x.value.columns(ranges[0].first, count) : Tensor(ctx.dtype, {x.value.shape()[0], count})};
  const ProfileScope profile(ctx, "columns", [&] { return pass_work(y.value, {0, view ? 0.0 : 2.0}, {0, 2}); });
  int64_t at = 0;
  for (const ColumnRange& r : ranges) {
    if (!view) copy(ctx.on, x.value.columns(r.first, r.count), y.value.columns(at, r.count), kernels::Write::overwrite);
    at += r.count;
  }
  if (ctx.records(x))
    y.node = ctx.tape->record("columns", [node = x.node, shape = x.value.shape(), ranges](Tape& tape, const Tensor& gradient) {
      const GradientTarget dx = tape.gradient_target(node, gradient.dtype(), shape);
      const kernels::Write write = prepare(tape.execution(), dx, ranges);
      int64_t from = 0;
      for (const ColumnRange& r : ranges) {
        copy(tape.execution(), gradient.columns(from, r.count), dx.tensor.columns(r.first, r.count), write);
        from += r.count;
      }
    });
  return y;
}

Variable join_columns(Context& ctx, const std::vector<Variable>& parts) {
  require(!parts.empty(), "join_columns: no parts");
  int64_t count = 0;
  bool wanted = false;
  for (const Variable& part : parts) {
    check_matrix(ctx, "join_columns", "a part", part.value);
    require(part.value.shape()[0] == parts[0].value.shape()[0], "join_columns: parts of {} and {} rows", parts[0].value.shape()[0],
            part.value.shape()[0]);
    count += part.value.shape()[1];
    wanted = wanted || ctx.records(part);
  }
  Variable y{Tensor(ctx.dtype, {parts[0].value.shape()[0], count})};
  const ProfileScope profile(ctx, "join_columns", [&] { return pass_work(y.value, {0, 2}, {0, 2}); });
  std::vector<std::pair<int, ColumnRange>> places;
  int64_t at = 0;
  for (const Variable& part : parts) {
    places.emplace_back(part.node, ColumnRange{at, part.value.shape()[1]});
    copy(ctx.on, part.value, y.value.columns(at, part.value.shape()[1]), kernels::Write::overwrite);
    at += part.value.shape()[1];
  }
  if (wanted)
    y.node = ctx.tape->record("join_columns", [places](Tape& tape, const Tensor& gradient) {
      for (const auto& [node, range] : places) {
        if (node == no_node) continue;
        const GradientTarget dx = tape.gradient_target(node, gradient.dtype(), {gradient.shape()[0], range.count});
        copy(tape.execution(), gradient.columns(range.first, range.count), dx.tensor, dx.write);
      }
    });
  return y;
}

}  // namespace tapeformer::ops
