// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution on the cpu device: tasks are runs of rows of one sequence; the kernels' gradients are summed run after run.
#include "framework/kernels/depthwise_conv.h"

#include <algorithm>
#include <vector>

#include "framework/core/parallel.h"
#include "framework/kernels/cpu/blocks.h"
#include "framework/kernels/cpu/simd/depthwise_conv.h"

namespace tapeformer::kernels {
namespace {

constexpr int64_t run_rows = 512;

struct Run {
  int sequence;
  int64_t first, last;  // in the sequence
};

std::vector<Run> runs_of(const Packing& packing) {
  std::vector<Run> runs;
  for (int b = 0; b < packing.sequences(); ++b)
    for (int64_t i = 0; i < packing.length(b); i += run_rows) runs.push_back({b, i, std::min<int64_t>(packing.length(b), i + run_rows)});
  return runs;
}

// One head of one sequence.
simd::DepthwiseConv described(const Packing& packing, int sequence, View<const float> x, int64_t head, int64_t heads, int64_t taps) {
  const int64_t columns = x.columns / heads;
  simd::DepthwiseConv out;
  out.rows = packing.length(sequence);
  out.columns = static_cast<int>(columns);
  out.taps = static_cast<int>(taps);
  out.x = {x.row(packing.offsets()[static_cast<size_t>(sequence)]) + head * columns, x.stride};
  return out;
}

}  // namespace

template <>
void DepthwiseConv<float>::cpu(const Execution& on, const Packing& packing, View<const float> x, View<const float> w, bool reversed,
                               View<float> y, Write write) {
  const std::vector<Run> runs = runs_of(packing);
  on.threads->run(static_cast<int64_t>(runs.size()), [&](int64_t task) {
    const Run& run = runs[static_cast<size_t>(task)];
    float* const kernel = thread_scratch(static_cast<size_t>(w.columns));
    for (int64_t h = 0; h < w.rows; ++h) {
      std::copy_n(w.row(h), w.columns, kernel);
      if (reversed) std::reverse(kernel, kernel + w.columns);
      simd::DepthwiseConv call = described(packing, run.sequence, x, h, w.rows, w.columns);
      call.kernel = kernel;
      call.y = {y.row(packing.offsets()[static_cast<size_t>(run.sequence)]) + h * call.columns, y.stride};
      call.add = write == Write::add;
      simd::depthwise_conv(call, run.first, run.last);
    }
  });
}

template <>
void DepthwiseConvWeight<float>::cpu(const Execution& on, const Packing& packing, View<const float> x, View<const float> dy,
                                     View<float> dw) {
  const std::vector<Run> runs = runs_of(packing);
  const int64_t size = dw.rows * dw.columns;
  std::vector<float> parts(runs.size() * static_cast<size_t>(size));
  on.threads->run(static_cast<int64_t>(runs.size()), [&](int64_t task) {
    const Run& run = runs[static_cast<size_t>(task)];
    for (int64_t h = 0; h < dw.rows; ++h) {
      const simd::DepthwiseConv call = described(packing, run.sequence, x, h, dw.rows, dw.columns);
      const simd::ConstRows gradient{dy.row(packing.offsets()[static_cast<size_t>(run.sequence)]) + h * call.columns, dy.stride};
      simd::depthwise_conv_weight(call, gradient, run.first, run.last, parts.data() + task * size + h * dw.columns);
    }
  });
  for (int64_t h = 0; h < dw.rows; ++h)
    for (int64_t t = 0; t < dw.columns; ++t) {
      double sum = 0;
      for (size_t run = 0; run < runs.size(); ++run)
        sum += parts[run * static_cast<size_t>(size) + static_cast<size_t>(h * dw.columns + t)];
      dw.row(h)[t] += static_cast<float>(sum);
    }
}

}  // namespace tapeformer::kernels
