// SPDX-License-Identifier: Apache-2.0
// Products of blocks on the reference device.
#include "framework/kernels/batched_product.h"

#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels {

template <class T>
void BatchedProduct<T>::reference(const Execution&, const BatchedProductCall& call, View<const T> a, View<const T> b, View<T> c,
                                  Write write) {
  for (int64_t r = 0; write == Write::overwrite && r < c.rows; ++r)
    for (int64_t n = 0; n < c.columns; ++n) c.row(r)[n] = 0;
  for (const ProductGroup& g : call.groups) {
    const int64_t depth = call.transpose_a ? g.a.rows : g.a.columns;
    const auto left = [&](int64_t m, int64_t k) -> double {
      return call.transpose_a ? a.row(g.a.row + k)[g.a.column + m] : a.row(g.a.row + m)[g.a.column + k];
    };
    const auto right = [&](int64_t k, int64_t n) -> double {
      return call.transpose_b ? b.row(g.b.row + n)[g.b.column + k] : b.row(g.b.row + k)[g.b.column + n];
    };
    for (int64_t m = 0; m < g.c.rows; ++m)
      for (int64_t n = 0; n < g.c.columns; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < depth; ++k) sum += left(m, k) * right(k, n);
        reference::store(c.row(g.c.row + m)[g.c.column + n], call.alpha * sum, Write::add);
      }
  }
}

template decltype(BatchedProduct<float>::reference) BatchedProduct<float>::reference;
template decltype(BatchedProduct<double>::reference) BatchedProduct<double>::reference;

}  // namespace tapeformer::kernels
