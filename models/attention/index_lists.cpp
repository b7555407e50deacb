// SPDX-License-Identifier: Apache-2.0
#include "models/attention/index_lists.h"

#include <numeric>

namespace tapeformer::models {

Tensor IndexLists::packed(std::span<const std::vector<int32_t>> lists) {
  std::vector<int32_t> all{static_cast<int32_t>(lists.size())};
  auto begin = static_cast<int32_t>(lists.size()) + 2;
  for (const auto& list : lists) {
    all.push_back(begin);
    begin += static_cast<int32_t>(list.size());
  }
  all.push_back(begin);
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return Tensor::of(all);
}

ClassOrder order_by_class(std::span<const int32_t> classes, int32_t count) {
  ClassOrder out;
  out.begin.assign(static_cast<size_t>(count) + 1, 0);
  for (const int32_t c : classes) ++out.begin[static_cast<size_t>(c) + 1];
  for (size_t c = 0; c < static_cast<size_t>(count); ++c) out.begin[c + 1] += out.begin[c];
  std::vector<int32_t> next(out.begin.begin(), out.begin.end() - 1);
  out.rows.resize(classes.size());
  for (size_t i = 0; i < classes.size(); ++i)
    out.rows[static_cast<size_t>(next[static_cast<size_t>(classes[i])]++)] = static_cast<int32_t>(i);
  return out;
}

RowMap gather_map(int64_t rows, std::vector<int32_t> source) {
  RowMap map;
  map.rows = rows;
  map.begin.resize(source.size() + 1);
  std::iota(map.begin.begin(), map.begin.end(), 0);
  map.source = std::move(source);
  return map;
}

}  // namespace tapeformer::models
