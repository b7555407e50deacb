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

// The `count` of n rows with the largest scores, ascending. Rows are counted by the first bits of their rank; those before the class in
// which the last one falls are in, and only those of that class are compared.
template <class T>
std::vector<int32_t> largest(const T* scores, int32_t n, int32_t count) {
  using Row = RankedRow<T>;
  constexpr int shift = 8 * static_cast<int>(sizeof(T)) - 12;
  std::vector<uint16_t> classes(static_cast<size_t>(n));
  for (int32_t i = 0; i < n; ++i) classes[static_cast<size_t>(i)] = static_cast<uint16_t>(Row(scores[i], i).rank >> shift);
  std::vector<int32_t> in_class(1 << 12);
  for (const uint16_t c : classes) ++in_class[c];
  uint16_t last = 0;
  int32_t before = 0;
  while (last + 1 < 1 << 12 && before + in_class[last] < count) before += in_class[last++];
  // Written wherever they may belong and counted where they do: a branch that scores decide would be guessed wrong again and again.
  std::vector<int32_t> rows(static_cast<size_t>(n)), tied(static_cast<size_t>(n));
  size_t taken = 0, equal = 0;
  for (int32_t i = 0; i < n; ++i) {
    const uint16_t c = classes[static_cast<size_t>(i)];
    rows[taken] = tied[equal] = i;
    taken += c < last;
    equal += c == last;
  }
  rows.resize(taken);
  std::vector<Row> ties;
  ties.reserve(equal);
  for (size_t t = 0; t < equal; ++t) ties.emplace_back(scores[tied[t]], tied[t]);
  const auto left = std::min(static_cast<size_t>(count - before), ties.size());
  std::nth_element(ties.begin(), ties.begin() + static_cast<int64_t>(left), ties.end());
  for (size_t t = 0; t < left; ++t) rows.push_back(ties[t].row);
  std::sort(rows.begin() + before, rows.end());
  std::inplace_merge(rows.begin(), rows.begin() + before, rows.end());
  return rows;
}

}  // namespace tapeformer::models
