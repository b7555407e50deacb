// SPDX-License-Identifier: Apache-2.0
// Row by row.
#include "framework/kernels/copy_rows.h"

namespace tapeformer::kernels {

template <class T>
void CopyRows<T>::reference(const Execution&, std::span<const RowRun> runs, View<const T> x, View<T> y, Write write) {
  for (const RowRun& run : runs)
    for (int64_t r = 0; r < run.rows; ++r)
      for (int64_t c = 0; c < x.columns; ++c) {
        T& to = y.row(run.to + r)[c];
        to = write == Write::add ? to + x.row(run.from + r)[c] : x.row(run.from + r)[c];
      }
}

template decltype(CopyRows<float>::reference) CopyRows<float>::reference;
template decltype(CopyRows<double>::reference) CopyRows<double>::reference;

}  // namespace tapeformer::kernels
