// SPDX-License-Identifier: Apache-2.0
// Pseudo-inverses on the cpu device: a task is one matrix, so all its products find their operands in the task's cache.
#include "framework/kernels/pseudo_inverse.h"

#include "framework/core/parallel.h"
#include "framework/kernels/cpu/blocks.h"
#include "framework/kernels/cpu/simd/product.h"
#include "framework/kernels/pseudo_inverse_steps.h"

namespace tapeformer::kernels {
namespace {

// The floats of a task's scratch: `matrices` of m x m, then what a product needs.
class Scratch {
 public:
  Scratch(int64_t m, int64_t matrices)
      : m_(m), stride_((m + 15) / 16 * 16 + simd::row_padding), of_matrices_(static_cast<size_t>(matrices * m * stride_)) {
    data_ = thread_scratch(of_matrices_ + simd::product_scratch(static_cast<int>(m), static_cast<int>(m)));
  }
  View<float> matrices(int64_t first, int64_t count) const { return {data_ + first * m_ * stride_, count * m_, m_, stride_}; }
  float* of_product() const { return data_ + (of_matrices_ + 15) / 16 * 16; }

 private:
  int64_t m_, stride_;
  size_t of_matrices_;
  float* data_;
};

auto steps(int64_t size, float* scratch) {
  const auto product = [size, scratch](View<float> c, View<const float> a, bool transpose_a, View<const float> b, bool transpose_b,
                                       double alpha, bool add) {
    simd::Product p;
    p.M = p.N = p.K = static_cast<int>(size);
    p.a = cpu::rows_of(a);
    p.b = cpu::rows_of(b);
    p.transpose_a = transpose_a;
    p.transpose_b = transpose_b;
    p.alpha = static_cast<float>(alpha);
    p.c = cpu::rows_of(c);
    p.add = add;
    simd::product(p, scratch);
  };
  return PseudoInverseSteps<float, decltype(product)>(size, product);
}

template <class T>
View<T> rows_of(View<T> x, int64_t first, int64_t count) {
  return {x.row(first), count, x.columns, x.stride};
}

}  // namespace

template <>
void PseudoInverseForward<float>::cpu(const Execution& on, const PseudoInverseCall& call, View<const float> a, View<float> z,
                                      View<float> kept) {
  const int64_t m = call.size;
  on.threads->run(call.matrices, [&](int64_t g) {
    const Scratch scratch(m, kept.rows ? 1 : 5);
    steps(m, scratch.of_product())
        .forward(
            rows_of(a, g * m, m), rows_of(z, g * m, m), call.iterations,
            [&](int t) { return kept.rows ? rows_of(kept, (g * call.iterations + t) * 4 * m, 4 * m) : scratch.matrices(1, 4); },
            scratch.matrices(0, 1));
  });
}

template <>
void PseudoInverseBackward<float>::cpu(const Execution& on, const PseudoInverseCall& call, View<const float> a, View<const float> kept,
                                       View<const float> dz, View<float> da, Write write) {
  const int64_t m = call.size;
  on.threads->run(call.matrices, [&](int64_t g) {
    const Scratch scratch(m, 5);
    const View<float> gradient = scratch.matrices(0, 1);
    for (int64_t i = 0; i < m; ++i) {
      std::copy_n(dz.row(g * m + i), m, gradient.row(i));
      if (write == Write::overwrite) std::fill_n(da.row(g * m + i), m, 0.f);
    }
    steps(m, scratch.of_product())
        .backward(
            rows_of(a, g * m, m), call.iterations, [&](int t) { return rows_of(kept, (g * call.iterations + t) * 4 * m, 4 * m); }, gradient,
            scratch.matrices(1, 4), rows_of(da, g * m, m));
  });
}

}  // namespace tapeformer::kernels
