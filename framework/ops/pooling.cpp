// SPDX-License-Identifier: Apache-2.0
// Pooling over the rows of each sequence: forward and backward.
#include "framework/ops/pooling.h"

#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/gradient.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {

Variable pooling(Context& ctx, Pooling kind, const Variable& x, const Packing& packing) {
  check_matrix(ctx, "pooling", "x", x.value);
  check_rows("pooling", x.value, packing);
  const ProfileScope profile(ctx, "pooling", [&] { return pass_work(x.value, {1, 1}, {1, 1}); });
  const Shape pooled{packing.sequences(), x.value.shape()[1]};
  Variable y{Tensor(ctx.dtype, pooled)};
  const Tensor argmax = kind == Pooling::max ? Tensor(Dtype::i32, pooled) : Tensor();
  dispatch(ctx.dtype, [&]<class T>(T) {
    kernels::launch<kernels::PoolingForward, T>(ctx.on, kind, packing.offsets(), x.value.matrix<const T>(), y.value.matrix<T>(),
                                                data_or_null<int32_t>(argmax));
  });
  // mean: dx = dy / length; max and first: dy goes to the row that was taken.
  if (ctx.records(x))
    y.node = ctx.tape->record(
        "pooling", [kind, node = x.node, shape = x.value.shape(), offsets = packing.offsets(), argmax](Tape& tape, const Tensor& gradient) {
          Tensor dx(gradient.dtype(), shape);
          dispatch(gradient.dtype(), [&]<class T>(T) {
            kernels::launch<kernels::PoolingBackward, T>(tape.execution(), kind, offsets, gradient.matrix<const T>(),
                                                         data_or_null<int32_t>(argmax), dx.matrix<T>());
          });
          tape.add_gradient(node, std::move(dx));
        });
  return y;
}

}  // namespace tapeformer::ops
