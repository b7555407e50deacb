// SPDX-License-Identifier: Apache-2.0
// Pseudo-inverses on the reference device.
#include "framework/kernels/pseudo_inverse.h"

#include "framework/kernels/pseudo_inverse_steps.h"
#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels {
namespace {

template <class T>
auto steps(int64_t size) {
  const auto product = [size](View<T> c, View<const T> a, bool transpose_a, View<const T> b, bool transpose_b, double alpha, bool add) {
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < size; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < size; ++k)
          sum +=
              static_cast<double>(transpose_a ? a.row(k)[i] : a.row(i)[k]) * static_cast<double>(transpose_b ? b.row(j)[k] : b.row(k)[j]);
        reference::store(c.row(i)[j], alpha * sum, add ? Write::add : Write::overwrite);
      }
  };
  return PseudoInverseSteps<T, decltype(product)>(size, product);
}

template <class T>
View<T> rows_of(View<T> x, int64_t first, int64_t count) {
  return {x.row(first), count, x.columns, x.stride};
}

}  // namespace

template <class T>
void PseudoInverseForward<T>::reference(const Execution&, const PseudoInverseCall& call, View<const T> a, View<T> z, View<T> kept) {
  const int64_t m = call.size;
  reference::Temporary<T> work(m, m), thrown_away(4 * m, m);
  for (int64_t g = 0; g < call.matrices; ++g)
    steps<T>(m).forward(
        rows_of(a, g * m, m), rows_of(z, g * m, m), call.iterations,
        [&](int t) { return kept.rows ? rows_of(kept, (g * call.iterations + t) * 4 * m, 4 * m) : thrown_away.view(); }, work.view());
}

template <class T>
void PseudoInverseBackward<T>::reference(const Execution&, const PseudoInverseCall& call, View<const T> a, View<const T> kept,
                                         View<const T> dz, View<T> da, Write write) {
  const int64_t m = call.size;
  reference::Temporary<T> gradient(m, m), scratch(4 * m, m);
  for (int64_t g = 0; g < call.matrices; ++g) {
    for (int64_t i = 0; i < m; ++i) {
      std::copy_n(dz.row(g * m + i), m, gradient.view().row(i));
      if (write == Write::overwrite) std::fill_n(da.row(g * m + i), m, T{0});
    }
    steps<T>(m).backward(
        rows_of(a, g * m, m), call.iterations, [&](int t) { return rows_of(kept, (g * call.iterations + t) * 4 * m, 4 * m); },
        gradient.view(), scratch.view(), rows_of(da, g * m, m));
  }
}

template decltype(PseudoInverseForward<float>::reference) PseudoInverseForward<float>::reference;
template decltype(PseudoInverseForward<double>::reference) PseudoInverseForward<double>::reference;
template decltype(PseudoInverseBackward<float>::reference) PseudoInverseBackward<float>::reference;
template decltype(PseudoInverseBackward<double>::reference) PseudoInverseBackward<double>::reference;

}  // namespace tapeformer::kernels
