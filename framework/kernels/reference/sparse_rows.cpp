// SPDX-License-Identifier: Apache-2.0
// Weighted sums of rows on the reference device.
#include "framework/kernels/sparse_rows.h"

#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels {

template <class T>
void SparseRows<T>::reference(const Execution&, std::span<const RowMap* const> maps, View<const T> x, View<T> out, Write write) {
  const int64_t columns = x.columns / static_cast<int64_t>(maps.size());
  for (size_t h = 0; h < maps.size(); ++h) {
    const RowMap& map = *maps[h];
    const int64_t first = static_cast<int64_t>(h) * columns;
    for (int64_t r = 0; r < out.rows; ++r)
      for (int64_t c = first; c < first + columns; ++c) {
        double sum = 0;
        for (auto e = static_cast<size_t>(map.begin[static_cast<size_t>(r)]);
             e < static_cast<size_t>(map.begin[static_cast<size_t>(r) + 1]); ++e)
          sum += (map.weight.empty() ? 1 : map.weight[e]) * static_cast<double>(x.row(map.source[e])[c]);
        reference::store(out.row(r)[c], sum, write);
      }
  }
}

template decltype(SparseRows<float>::reference) SparseRows<float>::reference;
template decltype(SparseRows<double>::reference) SparseRows<double>::reference;

}  // namespace tapeformer::kernels
