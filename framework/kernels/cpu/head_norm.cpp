// SPDX-License-Identifier: Apache-2.0
// Norms of heads on the cpu device.
#include "framework/kernels/head_norm.h"

#include <algorithm>
#include <cmath>

#include "framework/core/parallel.h"
#include "framework/kernels/cpu/blocks.h"
#include "framework/kernels/cpu/lanes.h"

namespace tapeformer::kernels {
namespace {

struct RowNorm {
  float centre = 0, inverse = 0;
  bool at_floor = false;
};

inline RowNorm norm_of(const HeadNormCall& call, const float* x, int64_t d) {
  RowNorm out;
  if (call.centred) out.centre = cpu::sum_of(d, [&](int64_t c) { return x[c]; }) / static_cast<float>(d);
  const float squares = cpu::sum_of(d, [&](int64_t c) { return (x[c] - out.centre) * (x[c] - out.centre); });
  const float length = std::sqrt(squares / static_cast<float>(d) + static_cast<float>(call.epsilon));
  out.at_floor = length < static_cast<float>(call.floor);
  out.inverse = 1 / (out.at_floor ? static_cast<float>(call.floor) : length);
  return out;
}

}  // namespace

template <>
void HeadNormForward<float>::cpu(const Execution& on, const HeadNormCall& call, View<const float> x, View<float> y) {
  const int64_t d = x.columns / (call.heads + call.kept), normed = d * call.heads;
  const auto factor = static_cast<float>(call.factor);
  parallel_blocks(*on.threads, x.rows, cpu::pass_rows(x.columns), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t first = 0; first < normed; first += d) {
        const float* from = x.row(r) + first;
        float* to = y.row(r) + first;
        const RowNorm n = norm_of(call, from, d);
        const float scale = n.inverse * factor;
        for (int64_t c = 0; c < d; ++c) to[c] = (from[c] - n.centre) * scale;
      }
      std::copy(x.row(r) + normed, x.row(r) + x.columns, y.row(r) + normed);
    }
  });
}

template <>
void HeadNormBackward<float>::cpu(const Execution& on, const HeadNormCall& call, View<const float> dy, View<const float> x, View<float> dx,
                                  Write write) {
  const int64_t d = x.columns / (call.heads + call.kept), normed = d * call.heads;
  const auto factor = static_cast<float>(call.factor);
  parallel_blocks(*on.threads, x.rows, cpu::pass_rows(x.columns), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      if (write == Write::overwrite) std::fill_n(dx.row(r), x.columns, 0.f);
      for (int64_t first = 0; first < normed; first += d) {
        const float *from = x.row(r) + first, *g = dy.row(r) + first;
        float* to = dx.row(r) + first;
        const RowNorm n = norm_of(call, from, d);
        const float share = factor / static_cast<float>(d);
        const float average = call.centred ? share * cpu::sum_of(d, [&](int64_t c) { return g[c]; }) : 0;
        const float along = n.at_floor ? 0 : share * n.inverse * cpu::sum_of(d, [&](int64_t c) { return g[c] * (from[c] - n.centre); });
        const float slope = along * n.inverse;
        for (int64_t c = 0; c < d; ++c) to[c] += n.inverse * (factor * g[c] - average - (from[c] - n.centre) * slope);
      }
      for (int64_t c = normed; c < x.columns; ++c) dx.row(r)[c] += dy.row(r)[c];
    }
  });
}

}  // namespace tapeformer::kernels
