// SPDX-License-Identifier: Apache-2.0
// Softmax inside blocks: checks, forward and backward.
#include "framework/ops/block_softmax.h"

#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {

Variable block_softmax(Context& ctx, const Variable& x, std::vector<Block> blocks, Axis axis) {
  check_matrix(ctx, "block_softmax", "x", x.value);
  const Shape& shape = x.value.shape();
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Block& b = blocks[i];
    require(b.row >= 0 && b.rows >= 0 && b.row + b.rows <= shape[0] && b.column >= 0 && b.columns >= 0 && b.column + b.columns <= shape[1],
            "block_softmax: block {} has rows {} + {} and columns {} + {} of {}", i, b.row, b.rows, b.column, b.columns, shape.text());
  }
  require(disjoint(blocks), "block_softmax: blocks overlap");
  const ProfileScope profile(ctx, "block_softmax", [&] { return pass_work(x.value, {5, 2}, {4, 3}); });
  Variable y{Tensor(ctx.dtype, shape)};
  dispatch(ctx.dtype, [&]<class T>(T) {
    kernels::launch<kernels::BlockSoftmaxForward, T>(ctx.on, std::span<const Block>(blocks), axis, x.value.matrix<const T>(),
                                                     y.value.matrix<T>());
  });
  // dx = y (dy - sum(dy y)) along each line.
  if (ctx.records(x))
    y.node = ctx.tape->record("block_softmax",
                              [node = x.node, blocks = std::move(blocks), axis, value = y.value](Tape& tape, const Tensor& gradient) {
                                const GradientTarget dx = tape.gradient_target(node, gradient.dtype(), gradient.shape());
                                dispatch(gradient.dtype(), [&]<class T>(T) {
                                  kernels::launch<kernels::BlockSoftmaxBackward, T>(tape.execution(), std::span<const Block>(blocks), axis,
                                                                                    gradient.matrix<const T>(), value.matrix<const T>(),
                                                                                    dx.tensor.matrix<T>(), dx.write);
                                });
                              });
  return y;
}

Variable softmax_over_rows(Context& ctx, const Variable& x, const Packing& packing) {
  check_matrix(ctx, "softmax_over_rows", "x", x.value);
  check_rows("softmax_over_rows", x.value, packing);
  std::vector<Block> blocks;
  for (int b = 0; b < packing.sequences(); ++b)
    blocks.push_back({packing.offsets()[static_cast<size_t>(b)], packing.length(b), 0, x.value.shape()[1]});
  return block_softmax(ctx, x, std::move(blocks), Axis::columns);
}

}  // namespace tapeformer::ops
