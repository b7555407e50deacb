// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/batch_norm.h"

#include <algorithm>

#include "framework/kernels/cpu/blocks.h"

namespace tapeformer::kernels {
namespace {

constexpr int64_t block = 256;          // rows of a partial sum
constexpr int64_t columns_a_task = 64;  // of adding partial sums

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
  if (blocks == 1) return storage;
  parallel_blocks(*on.threads, width, columns_a_task, [&](int64_t first, int64_t last) {
    for (int64_t b = 1; b < blocks; ++b)
      for (int64_t i = first; i < last; ++i) sums[i] += sums[b * width + i];
  });
  return storage;
}

// What the backward of a row needs of each channel: dx = scale (dy - shift - h slope).
struct Channels {
  Storage storage;
  float *scale, *shift, *slope;

  // `sums` are those of dy and of dy h; `share` of them reaches a row.
  Channels(int64_t C, const float* rstd, const float* gain, const double* sums, double share)
      : storage(allocate(static_cast<size_t>(3 * C) * sizeof(float))),
        scale(reinterpret_cast<float*>(storage.get())),
        shift(scale + C),
        slope(shift + C) {
    for (int64_t c = 0; c < C; ++c) {
      scale[c] = gain[c] * rstd[c];
      shift[c] = static_cast<float>(sums[c] * share);
      slope[c] = static_cast<float>(sums[C + c] * share);
    }
  }
};

void backward_row(int64_t C, const Channels& of, const float* dy, const float* x, const float* mean, const float* rstd, bool add,
                  float* __restrict dx) {
  const float *scale = of.scale, *shift = of.shift, *slope = of.slope;
  const auto gradient = [=](int64_t c) { return scale[c] * (dy[c] - shift[c] - (x[c] - mean[c]) * rstd[c] * slope[c]); };
  if (add)
    for (int64_t c = 0; c < C; ++c) dx[c] += gradient(c);
  else
    for (int64_t c = 0; c < C; ++c) dx[c] = gradient(c);
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
  const Channels channels(C, rstd, gain, sums, mode == BatchNormMode::batch ? 1 / static_cast<double>(std::max<int64_t>(1, x.rows)) : 0);
  parallel_blocks(*on.threads, x.rows, cpu::pass_rows(C), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) backward_row(C, channels, dy.row(r), x.row(r), mean, rstd, write == Write::add, dx.row(r));
  });
}

}  // namespace tapeformer::kernels
