// SPDX-License-Identifier: Apache-2.0
// Softmax inside blocks on the reference device.
#include "framework/kernels/block_softmax.h"

#include <algorithm>
#include <cmath>

#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels {
namespace {

template <class T>
void clear(View<T> x) {
  for (int64_t r = 0; r < x.rows; ++r) std::fill_n(x.row(r), x.columns, T{0});
}

// Calls body(count, place) for each row or column of each block; place(view, i) is its element i.
template <class Body>
void for_each_line(std::span<const Block> blocks, Axis axis, const Body& body) {
  for (const Block& b : blocks)
    for (int64_t line = 0; line < (axis == Axis::rows ? b.rows : b.columns); ++line)
      body(
          axis == Axis::rows ? b.columns : b.rows, [&](auto view, int64_t i) -> auto& {
            return axis == Axis::rows ? view.row(b.row + line)[b.column + i] : view.row(b.row + i)[b.column + line];
          });
}

}  // namespace

template <class T>
void BlockSoftmaxForward<T>::reference(const Execution&, std::span<const Block> blocks, Axis axis, View<const T> x, View<T> y) {
  clear(y);
  for_each_line(blocks, axis, [&](int64_t count, const auto& at) {
    double most = count > 0 ? static_cast<double>(at(x, 0)) : 0, sum = 0;
    for (int64_t i = 1; i < count; ++i) most = std::max(most, static_cast<double>(at(x, i)));
    for (int64_t i = 0; i < count; ++i) sum += std::exp(at(x, i) - most);
    for (int64_t i = 0; i < count; ++i) at(y, i) = static_cast<T>(std::exp(at(x, i) - most) / sum);
  });
}

template <class T>
void BlockSoftmaxBackward<T>::reference(const Execution&, std::span<const Block> blocks, Axis axis, View<const T> dy, View<const T> y,
                                        View<T> dx, Write write) {
  if (write == Write::overwrite) clear(dx);
  for_each_line(blocks, axis, [&](int64_t count, const auto& at) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(at(dy, i)) * at(y, i);
    for (int64_t i = 0; i < count; ++i) reference::store(at(dx, i), at(y, i) * (at(dy, i) - sum), Write::add);
  });
}

template decltype(BlockSoftmaxForward<float>::reference) BlockSoftmaxForward<float>::reference;
template decltype(BlockSoftmaxForward<double>::reference) BlockSoftmaxForward<double>::reference;
template decltype(BlockSoftmaxBackward<float>::reference) BlockSoftmaxBackward<float>::reference;
template decltype(BlockSoftmaxBackward<double>::reference) BlockSoftmaxBackward<double>::reference;

}  // namespace tapeformer::kernels
