// SPDX-License-Identifier: Apache-2.0
// Softmax on the cpu device: tasks of some rows.
#include "framework/kernels/softmax.h"

#include "framework/kernels/cpu/blocks.h"
#include "framework/kernels/cpu/simd/softmax.h"

namespace tapeformer::kernels {
namespace {

// Calls body(rows, pointer of a view to its part) for all tasks.
template <class Body>
void run(const Execution& on, View<const float> x, const Body& body) {
  parallel_blocks(*on.threads, x.rows, cpu::pass_rows(4 * x.columns), [&](int64_t first, int64_t last) {
    const int64_t rows = last - first;
    body(static_cast<int>(rows), [&](auto view) { return cpu::rows_of(decltype(view){view.row(first), rows, view.columns, view.stride}); });
  });
}

}  // namespace

template <>
void SoftmaxForward<float>::cpu(const Execution& on, View<const float> x, View<float> y) {
  run(on, x, [&](int rows, const auto& part) { simd::softmax(rows, static_cast<int>(x.columns), part(x), part(y)); });
}

template <>
void SoftmaxBackward<float>::cpu(const Execution& on, View<const float> dy, View<const float> y, View<float> dx, Write write) {
  run(on, y, [&](int rows, const auto& part) {
    simd::softmax_backward(rows, static_cast<int>(y.columns), part(dy), part(y), write == Write::add, part(dx));
  });
}

}  // namespace tapeformer::kernels
