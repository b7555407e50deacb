// SPDX-License-Identifier: Apache-2.0
// Each op's backward is the other one, plus the sum over sequences for the learned rows.
#include "framework/ops/extra_rows.h"

#include "framework/kernels/copy_rows.h"
#include "framework/kernels/elementwise.h"
#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/gradient.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {
namespace {

// Where the sequences' own rows lie without (from) and with (to) g rows in front of each.
std::vector<kernels::RowRun> own_rows(const Packing& packing, int64_t g) {
  std::vector<kernels::RowRun> runs;
  for (int b = 0; b < packing.sequences(); ++b) {
    const int64_t first = packing.offsets()[static_cast<size_t>(b)];
    runs.push_back({first, first + (b + 1) * g, packing.length(b)});
  }
  return runs;
}

// Where the g rows of each sequence lie.
std::vector<kernels::RowRun> front_rows(const Packing& packing, int64_t g) {
  std::vector<kernels::RowRun> runs;
  for (int b = 0; b < packing.sequences(); ++b) runs.push_back({0, packing.offsets()[static_cast<size_t>(b)] + b * g, g});
  return runs;
}

std::vector<kernels::RowRun> reversed(std::vector<kernels::RowRun> runs) {
  for (auto& run : runs) std::swap(run.from, run.to);
  return runs;
}

void copy(const Execution& on, std::span<const kernels::RowRun> runs, const Tensor& x, const Tensor& y, kernels::Write write) {
  dispatch(x.dtype(), [&]<class T>(T) { kernels::launch<kernels::CopyRows, T>(on, runs, x.matrix<const T>(), y.matrix<T>(), write); });
}

}  // namespace

Variable parameter(Context& ctx, Parameter& p) {
  require(p.value.dtype() == ctx.dtype, "parameter: {} is {}, the context computes in {}", p.name, name_of(p.value.dtype()),
          name_of(ctx.dtype));
  Variable y{p.value};
  if (ctx.records(p))
    y.node = ctx.tape->record("parameter", [&p](Tape& tape, const Tensor& gradient) {
      const Tensor to = parameter_gradient(&p);
      dispatch(gradient.dtype(),
               [&]<class T>(T) { kernels::launch<kernels::AddTo, T>(tape.execution(), gradient.matrix<const T>(), to.matrix<T>()); });
    });
  return y;
}

Variable put_in_front(Context& ctx, const Variable& extra, const Variable& x, const Packing& packing) {
  check_matrix(ctx, "put_in_front", "x", x.value);
  check_matrix(ctx, "put_in_front", "extra", extra.value);
  check_rows("put_in_front", x.value, packing);
  require(extra.value.shape()[1] == x.value.shape()[1], "put_in_front: extra rows {} before rows {}", extra.value.shape().text(),
          x.value.shape().text());
  const int64_t g = extra.value.shape()[0];
  Variable y{Tensor(ctx.dtype, {x.value.shape()[0] + g * packing.sequences(), x.value.shape()[1]})};
  const ProfileScope profile(ctx, "put_in_front", [&] { return pass_work(y.value, {0, 2}, {0, 2}); });
  copy(ctx.on, own_rows(packing, g), x.value, y.value, kernels::Write::overwrite);
  copy(ctx.on, front_rows(packing, g), extra.value, y.value, kernels::Write::overwrite);
  if (ctx.records(x) || ctx.records(extra))
    y.node = ctx.tape->record("put_in_front",
                              [&packing, g, x = x.node, extra = extra.node, rows = x.value.shape()[0]](Tape& tape, const Tensor& gradient) {
                                if (x != no_node) {
                                  const GradientTarget dx = tape.gradient_target(x, gradient.dtype(), {rows, gradient.shape()[1]});
                                  copy(tape.execution(), reversed(own_rows(packing, g)), gradient, dx.tensor, dx.write);
                                }
                                if (extra == no_node) return;
                                const Tensor sum = cleared_target(tape, extra, gradient.dtype(), {g, gradient.shape()[1]});
                                // One after the other: all add to the same rows.
                                for (const kernels::RowRun& run : reversed(front_rows(packing, g)))
                                  copy(tape.execution(), std::span(&run, 1), gradient, sum, kernels::Write::add);
                              });
  return y;
}

Variable take_off_front(Context& ctx, const Variable& x, const Packing& packing, int32_t g) {
  check_matrix(ctx, "take_off_front", "x", x.value);
  require(x.value.shape()[0] == packing.rows() + int64_t{g} * packing.sequences(),
          "take_off_front: {} rows, expected {} and {} more for each of {} sequences", x.value.shape()[0], packing.rows(), g,
          packing.sequences());
  Variable y{Tensor(ctx.dtype, {packing.rows(), x.value.shape()[1]})};
  const ProfileScope profile(ctx, "take_off_front", [&] { return pass_work(y.value, {0, 2}, {0, 2}); });
  copy(ctx.on, reversed(own_rows(packing, g)), x.value, y.value, kernels::Write::overwrite);
  if (ctx.records(x))
    y.node = ctx.tape->record("take_off_front", [&packing, g, node = x.node, shape = x.value.shape()](Tape& tape, const Tensor& gradient) {
      copy(tape.execution(), own_rows(packing, g), gradient, cleared_target(tape, node, gradient.dtype(), shape), kernels::Write::add);
    });
  return y;
}

}  // namespace tapeformer::ops
