// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/batch_norm.h"

#include <algorithm>

#include "framework/kernels/cpu/blocks.h"

namespace tapeformer::kernels {
namespace {

constexpr int64_t block = 256;  // rows of a partial sum

// Sums of `width` doubles over blocks of rows: body(row, sums) adds one row; the blocks are added in order into total[width].
template <class Body>
Storage block_sums(const Execution& on, int64_t rows, int64_t width, const Body& body) {
  const int64_t blocks = std::max<int64_t>(1, (rows + block - 1) / block);
  Storage storage = allocate(static_cast<size_t>(blocks * width) * sizeof(double));
  double* sums = reinterpret_cast<double*>(storage.get());
  std::fill_n(sums, width, 0.0);
  parallel_blocks(*on.threads, rows, block, [&](int64_t first, int64_t last) {
    double* mine = sums + first / block * width;
    std::fill_n(mine, width, 0.0);
    for (int64_t r = first; r < last; ++r) body(r, mine);
  });
  for (int64_t b = 1; b < blocks; ++b)
    for (int64_t i = 0; i < width; ++i) sums[i] += sums[b * width + i];
  return storage;
}

}  // namespace

template <>
void BatchNormStatistics<float>::cpu(const Execution& on, View<const float> x, float* mean, float* m2) {
  const int64_t C = x.columns;
  const Storage first = block_sums(on, x.rows, C, [&](int64_t r, double* sums) {
    const float* row = x.row(r);
    for (int64_t c = 0; c < C; ++c) sums[c] += static_cast<double>(row[c]);
  });
  double* exact = reinterpret_cast<double*>(first.get());
  for (int64_t c = 0; c < C; ++c) {
    exact[c] /= static_cast<double>(std::max<int64_t>(1, x.rows));
    mean[c] = static_cast<float>(exact[c]);
  }
  const Storage second = block_sums(on, x.rows, C, [&](int64_t r, double* sums) {
    const float* row = x.row(r);
    for (int64_t c = 0; c < C; ++c) {
      const double t = static_cast<double>(row[c]) - exact[c];
      sums[c] += t * t;
    }
  });
  for (int64_t c = 0; c < C; ++c) m2[c] = static_cast<float>(reinterpret_cast<const double*>(second.get())[c]);
}

template <>
void BatchNormApply<float>::cpu(const Execution& on, View<const float> x, const float* mean, const float* rstd, const float* gain,
                                const float* shift, View<float> y) {
  parallel_blocks(*on.threads, x.rows, cpu::pass_rows(x.columns), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const float* from = x.row(r);
      float* to = y.row(r);
      for (int64_t c = 0; c < x.columns; ++c) to[c] = (from[c] - mean[c]) * rstd[c] * gain[c] + shift[c];
    }
  });
}

template <>
void BatchNormBackward<float>::cpu(const Execution& on, BatchNormMode mode, View<const float> dy, View<const float> x, const float* mean,
                                   const float* rstd, const float* gain, View<float> dx, Write write, float* dgain, float* dshift) {
  const int64_t C = x.columns;
  const Storage storage = block_sums(on, x.rows, 2 * C, [&](int64_t r, double* sums) {
    const float *g = dy.row(r), *row = x.row(r);
    for (int64_t c = 0; c < C; ++c) {
      sums[c] += static_cast<double>(g[c]);
      sums[C + c] += static_cast<double>(g[c]) * static_cast<double>((row[c] - mean[c]) * rstd[c]);
    }
  });
  const double* sums = reinterpret_cast<const double*>(storage.get());
  for (int64_t c = 0; c < C; ++c) {
    if (dgain) dgain[c] += static_cast<float>(sums[C + c]);
    if (dshift) dshift[c] += static_cast<float>(sums[c]);
  }
  if (!dx.data) return;
  const double share = mode == BatchNormMode::batch ? 1 / static_cast<double>(std::max<int64_t>(1, x.rows)) : 0;
  parallel_blocks(*on.threads, x.rows, cpu::pass_rows(C), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const float *g = dy.row(r), *row = x.row(r);
      float* to = dx.row(r);
      for (int64_t c = 0; c < C; ++c) {
        const float h = (row[c] - mean[c]) * rstd[c];
        const float v = gain[c] * rstd[c] * (g[c] - static_cast<float>(sums[c] * share) - h * static_cast<float>(sums[C + c] * share));
        to[c] = write == Write::add ? to[c] + v : v;
      }
    }
  });
}

}  // namespace tapeformer::kernels
