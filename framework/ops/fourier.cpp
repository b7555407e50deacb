// SPDX-License-Identifier: Apache-2.0
// The Fourier transform of sequences: checks, and the same kernel forward and backward.
#include "framework/ops/fourier.h"

#include <cmath>

#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {
namespace {

// A real transform of N C values is 2.5 N C log2(N C) FLOPs, the same backward.
OpWork fourier_work(const Tensor& x, const std::vector<FourierPlanPointer>& plans) {
  Work one{0, 2 * bytes_of(x)};
  for (const FourierPlanPointer& plan : plans) {
    const double values = static_cast<double>(plan->length) * static_cast<double>(x.shape()[1]);
    one.flops += values > 0 ? 2.5 * values * std::log2(values) : 0;
  }
  return {one, one};
}

}  // namespace

FourierPlanPointer FourierTables::plan(int32_t length) {
  constexpr size_t bound = size_t{32} << 20;
  FourierPlanPointer& made = plans_[length];
  if (made) return made;
  const auto fresh = std::make_shared<const FourierPlan>(fourier_plan(length));
  if (bytes_ > bound) {
    plans_.clear();
    bytes_ = 0;
  }
  bytes_ += fresh->bytes();
  return plans_[length] = fresh;
}

Variable fourier(Context& ctx, const Variable& x, const Packing& packing, FourierTables& tables, int32_t length) {
  check_matrix(ctx, "fourier", "x", x.value);
  check_rows("fourier", x.value, packing);
  const int64_t channels = x.value.shape()[1];
  require(static_cast<int64_t>(tables.channels()->size()) == channels * 2 * ((channels + 1) / 2), "fourier: tables for other than {} channels",
          channels);
  require(length == 0 || packing.longest() <= length, "fourier: a sequence of {} rows, transforms of {}", packing.longest(), length);
  std::vector<FourierPlanPointer> plans;
  for (int b = 0; b < packing.sequences(); ++b) plans.push_back(tables.plan(length ? length : packing.length(b)));
  const ProfileScope profile(ctx, "fourier", [&] { return fourier_work(x.value, plans); });
  const auto transform = [&packing, plans = std::move(plans), matrix = tables.channels()](const Execution& on, const Tensor& from,
                                                                                          const GradientTarget& to) {
    dispatch(from.dtype(), [&]<class T>(T) {
      kernels::launch<kernels::FourierMix, T>(on, kernels::FourierCall{&packing, plans, *matrix}, from.matrix<const T>(), to.tensor.matrix<T>(),
                                              to.write);
    });
  };
  Variable y{Tensor(ctx.dtype, x.value.shape())};
  transform(ctx.on, x.value, {y.value, kernels::Write::overwrite});
  // The map is its own adjoint: dx = Re(F_N dy F_C).
  if (ctx.records(x))
    y.node = ctx.tape->record("fourier", [node = x.node, transform](Tape& tape, const Tensor& gradient) {
      transform(tape.execution(), gradient, tape.gradient_target(node, gradient.dtype(), gradient.shape()));
    });
  return y;
}

}  // namespace tapeformer::ops
