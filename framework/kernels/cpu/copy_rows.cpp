// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/copy_rows.h"

#include <algorithm>
#include <vector>

#include "framework/kernels/cpu/blocks.h"

namespace tapeformer::kernels {

template <>
void CopyRows<float>::cpu(const Execution& on, std::span<const RowRun> runs, View<const float> x, View<float> y, Write write) {
  const int64_t most = cpu::pass_rows(x.columns);
  // Tasks of about `most` rows: long runs are cut, short ones gathered.
  std::vector<RowRun> pieces;
  for (const RowRun& run : runs)
    for (int64_t r = 0; r < run.rows; r += most) pieces.push_back({run.from + r, run.to + r, std::min(most, run.rows - r)});
  std::vector<int64_t> begin{0};
  int64_t rows = 0;
  for (size_t p = 0; p < pieces.size(); ++p) {
    rows += pieces[p].rows;
    if (rows < most && p + 1 < pieces.size()) continue;
    begin.push_back(static_cast<int64_t>(p) + 1);
    rows = 0;
  }
  on.threads->run(static_cast<int64_t>(begin.size()) - 1, [&](int64_t task) {
    for (int64_t p = begin[static_cast<size_t>(task)]; p < begin[static_cast<size_t>(task) + 1]; ++p) {
      const RowRun& piece = pieces[static_cast<size_t>(p)];
      for (int64_t r = 0; r < piece.rows; ++r) {
        const float* from = x.row(piece.from + r);
        float* to = y.row(piece.to + r);
        if (write == Write::overwrite) std::copy_n(from, x.columns, to);
        else
          for (int64_t c = 0; c < x.columns; ++c) to[c] += from[c];
      }
    }
  });
}

}  // namespace tapeformer::kernels
