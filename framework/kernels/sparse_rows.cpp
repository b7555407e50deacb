// SPDX-License-Identifier: Apache-2.0
// The transposition of a sparse map of rows, by counting.
#include "framework/kernels/sparse_rows.h"

namespace tapeformer {

RowMap transposed(const RowMap& map) {
  RowMap out;
  out.rows = map.result_rows();
  out.begin.assign(static_cast<size_t>(map.rows) + 1, 0);
  for (const int32_t s : map.source) ++out.begin[static_cast<size_t>(s) + 1];
  for (size_t r = 1; r < out.begin.size(); ++r) out.begin[r] += out.begin[r - 1];
  out.source.resize(map.source.size());
  out.weight.resize(map.weight.size());
  std::vector<int32_t> next(out.begin.begin(), out.begin.end() - 1);
  for (int32_t r = 0; r < out.rows; ++r)
    for (auto e = static_cast<size_t>(map.begin[static_cast<size_t>(r)]); e < static_cast<size_t>(map.begin[static_cast<size_t>(r) + 1]);
         ++e) {
      const auto to = static_cast<size_t>(next[static_cast<size_t>(map.source[e])]++);
      out.source[to] = r;
      if (!map.weight.empty()) out.weight[to] = map.weight[e];
    }
  return out;
}

}  // namespace tapeformer
