// SPDX-License-Identifier: Apache-2.0
// Softmax inside blocks on the cpu device: tasks of some rows, or of some columns, of a block.
#include "framework/kernels/block_softmax.h"

#include <algorithm>
#include <vector>

#include "framework/core/parallel.h"
#include "framework/kernels/cpu/blocks.h"
#include "framework/kernels/cpu/simd/softmax.h"

namespace tapeformer::kernels {
namespace {

std::vector<Block> cut(std::span<const Block> blocks, Axis axis) {
  constexpr int64_t columns_a_task = 64;
  std::vector<Block> out;
  for (const Block& b : blocks) {
    if (b.area() == 0) continue;
    const int64_t rows = axis == Axis::rows ? cpu::pass_rows(b.columns) : b.rows, columns = axis == Axis::rows ? b.columns : columns_a_task;
    for (int64_t r = 0; r < b.rows; r += rows)
      for (int64_t c = 0; c < b.columns; c += columns)
        out.push_back({b.row + r, std::min(rows, b.rows - r), b.column + c, std::min(columns, b.columns - c)});
  }
  return out;
}

void clear_outside(const Execution& on, std::span<const Block> blocks, View<float> y) {
  int64_t covered = 0;
  for (const Block& b : blocks) covered += b.area();
  if (covered == y.rows * y.columns) return;
  parallel_blocks(*on.threads, y.rows, cpu::pass_rows(y.columns), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) std::fill_n(y.row(r), y.columns, 0.f);
  });
}

// Calls body(description, pointer of a view to its part) for all tasks.
template <class Body>
void run(const Execution& on, std::span<const Block> blocks, Axis axis, const Body& body) {
  const std::vector<Block> tasks = cut(blocks, axis);
  on.threads->run(static_cast<int64_t>(tasks.size()), [&](int64_t t) {
    const Block& b = tasks[static_cast<size_t>(t)];
    const simd::SoftmaxBlock described{static_cast<int>(b.rows), static_cast<int>(b.columns), axis == Axis::columns};
    body(described, [&](auto view) { return cpu::rows_of(decltype(view){view.row(b.row) + b.column, b.rows, b.columns, view.stride}); });
  });
}

}  // namespace

template <>
void BlockSoftmaxForward<float>::cpu(const Execution& on, std::span<const Block> blocks, Axis axis, View<const float> x, View<float> y) {
  clear_outside(on, blocks, y);
  run(on, blocks, axis, [&](const simd::SoftmaxBlock& b, const auto& part) { simd::softmax(b, part(x), part(y)); });
}

template <>
void BlockSoftmaxBackward<float>::cpu(const Execution& on, std::span<const Block> blocks, Axis axis, View<const float> dy,
                                      View<const float> y, View<float> dx, Write write) {
  const bool add = write == Write::add;
  if (!add) clear_outside(on, blocks, dx);
  run(on, blocks, axis,
      [&](const simd::SoftmaxBlock& b, const auto& part) { simd::softmax_backward(b, part(dy), part(y), add, part(dx)); });
}

}  // namespace tapeformer::kernels
