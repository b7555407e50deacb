// SPDX-License-Identifier: Apache-2.0
// The rows with the largest scores, of equal ones the first, whatever the scores hold.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace tapeformer::models {

// A row and its score, in the order that larger scores come first and of equal ones the earlier row; a NaN has a place too.
template <class T>
struct RankedRow {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  Bits rank;
  int32_t row;

  RankedRow(T score, int32_t r) : row(r) {
    const auto bits = std::bit_cast<Bits>(score + T{0});  // the two zeros are equal
    constexpr Bits sign = Bits{1} << (8 * sizeof(T) - 1);
    rank = bits & sign ? bits : ~bits & ~sign;
  }
  bool operator<(const RankedRow& other) const { return rank != other.rank ? rank < other.rank : row < other.row; }
};

// The `count` of n rows with the largest scores, ascending.
template <class T>
std::vector<int32_t> largest(const T* scores, int32_t n, int32_t count) {
  std::vector<RankedRow<T>> all;
  all.reserve(static_cast<size_t>(n));
  for (int32_t i = 0; i < n; ++i) all.emplace_back(scores[i], i);
  if (count < n) std::nth_element(all.begin(), all.begin() + count, all.end());
  std::vector<int32_t> rows;
  for (int32_t i = 0; i < count; ++i) rows.push_back(all[static_cast<size_t>(i)].row);
  std::sort(rows.begin(), rows.end());
  return rows;
}

}  // namespace tapeformer::models
