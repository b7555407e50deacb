// SPDX-License-Identifier: Apache-2.0
// The Fourier transform on the cpu device: over the channels as a product with a constant matrix, then over the positions by a fast transform
// of a vector of channels at a time. Real input has a symmetric spectrum, so half of the channels say everything.
#include "framework/kernels/fourier.h"

#include <algorithm>
#include <vector>

#include "framework/kernels/cpu/blocks.h"
#include "framework/kernels/cpu/simd/fourier.h"
#include "framework/kernels/cpu/simd/product.h"

namespace tapeformer::kernels {
namespace {

constexpr int64_t product_columns = 128;

// z [T, 2 L] = x M.
void transform_channels(const Execution& on, View<const float> x, std::span<const float> matrix, View<float> z) {
  const int64_t rows = std::min<int64_t>(144, std::max<int64_t>(1, x.rows));
  parallel_blocks(*on.threads, x.rows, rows, [&](int64_t first, int64_t last) {
    float* const scratch = thread_scratch(simd::product_scratch(static_cast<int>(rows), product_columns));
    for (int64_t n = 0; n < z.columns; n += product_columns) {
      simd::Product p;
      p.M = static_cast<int>(last - first);
      p.N = static_cast<int>(std::min(product_columns, z.columns - n));
      p.K = static_cast<int>(x.columns);
      p.a = {x.row(first), x.stride};
      p.b = {matrix.data() + n, z.columns};
      p.c = {z.row(first) + n, z.stride};
      simd::product(p, scratch);
    }
  });
}

// Frequencies first ... first + count - 1 over the channels of one sequence.
struct Task {
  int sequence;
  int64_t first, count;
};

// From the spectrum over positions to rows of y: channel c has frequency c, and channel C - c its mirror image.
class Writer {
 public:
  Writer(const View<float>& y, const FourierPlan& plan, int64_t lanes, Write write) : y_(y), length_(plan.length), lanes_(lanes), write_(write) {}

  void row(const float* spectrum, int64_t k, const Task& task) const {
    const int64_t channels = y_.columns, mirrored = k == 0 ? 0 : length_ - k;
    const float *own = spectrum + 2 * lanes_ * k, *mirror = spectrum + 2 * lanes_ * mirrored;
    float* const to = y_.row(k);
    int64_t l = 0;
    if (task.first == 0) {
      // Two real signals went in as one complex one.
      put(to[0], 0.5f * (own[0] + mirror[0]));
      if (channels % 2 == 0) put(to[channels / 2], 0.5f * (own[lanes_] + mirror[lanes_]));
      l = 1;
    }
    for (int64_t i = l; i < task.count; ++i) put(to[task.first + i], own[i]);
    for (int64_t i = l; i < task.count; ++i) put(to[channels - task.first - i], mirror[i]);
  }

 private:
  void put(float& place, float value) const { place = write_ == Write::add ? place + value : value; }

  View<float> y_;
  int64_t length_, lanes_;
  Write write_;
};

simd::FourierTransform described(const FourierPlan& plan) {
  simd::FourierTransform t;
  t.length = plan.length;
  t.smooth = plan.smooth;
  t.radices = plan.radices.data();
  t.radix_count = static_cast<int>(plan.radices.size());
  t.roots = plan.roots.data();
  if (!plan.chirp.empty()) {
    t.chirp = plan.chirp.data();
    t.chirp_factor = plan.chirp_factor.data();
  }
  return t;
}

}  // namespace

template <>
void FourierMix<float>::cpu(const Execution& on, const FourierCall& call, View<const float> x, View<float> y, Write write) {
  const int64_t half = (x.columns + 1) / 2, lanes = simd::fourier_columns();
  const Storage memory = allocate(static_cast<size_t>(x.rows * 2 * half) * sizeof(float) + 64);
  const View<float> z{reinterpret_cast<float*>(memory.get()), x.rows, 2 * half, 2 * half};
  transform_channels(on, x, call.channels, z);
  std::vector<Task> tasks;
  for (int b = 0; b < call.packing->sequences(); ++b)
    for (int64_t l = 0; l < half && call.packing->length(b) > 0; l += lanes) tasks.push_back({b, l, std::min(lanes, half - l)});
  std::stable_sort(tasks.begin(), tasks.end(), [&](const Task& a, const Task& b) {
    return call.plans[static_cast<size_t>(a.sequence)]->smooth > call.plans[static_cast<size_t>(b.sequence)]->smooth;
  });
  on.threads->run(static_cast<int64_t>(tasks.size()), [&](int64_t i) {
    const Task& task = tasks[static_cast<size_t>(i)];
    const FourierPlan& plan = *call.plans[static_cast<size_t>(task.sequence)];
    const int64_t first = call.packing->offsets()[static_cast<size_t>(task.sequence)], n = call.packing->length(task.sequence);
    const simd::FourierTransform transform = described(plan);
    const float* spectrum = simd::fourier(transform, {z.row(first) + task.first, z.stride}, {z.row(first) + half + task.first, z.stride},
                                          static_cast<int>(n), static_cast<int>(task.count), thread_scratch(simd::fourier_scratch(transform)));
    const Writer writer({y.row(first), n, y.columns, y.stride}, plan, lanes, write);
    for (int64_t k = 0; k < n; ++k) writer.row(spectrum, k, task);
  });
}

}  // namespace tapeformer::kernels
