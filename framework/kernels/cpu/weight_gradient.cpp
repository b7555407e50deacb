// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/cpu/weight_gradient.h"

#include <algorithm>

#include "framework/core/parallel.h"
#include "framework/kernels/cpu/blocks.h"
#include "framework/kernels/cpu/simd/weight_gradient.h"

namespace tapeformer::kernels::cpu {
namespace {

// A tile of 590 KB and the rows that it meets stay in a second cache level of 1 MiB.
constexpr int64_t tile_rows = 192, tile_columns = 768;
constexpr int64_t in_cache = 1 << 20;  // floats whose partial sums stay in the second cache level

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

bool large_weights(int64_t floats) { return floats > in_cache; }

KeptRows::KeptRows(int64_t rows, int64_t columns) {
  const int64_t stride = divide_up(columns, 32) * 32 + simd::row_padding;
  memory = allocate(static_cast<size_t>(rows * stride) * sizeof(float));
  view = {reinterpret_cast<float*>(memory.get()), rows, columns, stride};
}

void add_weight_gradient(const Execution& on, View<const float> x, View<const float> y, View<float> dw) {
  if (x.rows == 0) return;
  const simd::WeightGradient g{x.rows, static_cast<int>(x.columns), static_cast<int>(y.columns), rows_of(x), rows_of(y), rows_of(dw)};
  const Storage storage = allocate(simd::packed_rows_size(g.rows, g.N) * sizeof(float));
  float* packed = reinterpret_cast<float*>(storage.get());
  on.threads->run(divide_up(g.rows, simd::weight_gradient_step), [&](int64_t step) { simd::pack_rows(g, step, packed); });
  const int64_t across = divide_up(g.N, tile_columns);
  on.threads->run(divide_up(g.M, tile_rows) * across, [&](int64_t tile) {
    const int m0 = static_cast<int>(tile / across * tile_rows), n0 = static_cast<int>(tile % across * tile_columns);
    const int M = static_cast<int>(std::min<int64_t>(tile_rows, g.M - m0)), N = static_cast<int>(std::min<int64_t>(tile_columns, g.N - n0));
    simd::weight_gradient_tile(g, packed, m0, M, n0, N, thread_scratch(simd::weight_gradient_scratch(M, N)));
  });
}

}  // namespace tapeformer::kernels::cpu
