// SPDX-License-Identifier: Apache-2.0
// The sizes of a tensor's axes, outermost first; up to four.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "framework/core/error.h"

namespace tapeformer {

class Shape {
 public:
  static constexpr int max_rank = 4;
  Shape() = default;
  Shape(std::initializer_list<int64_t> sizes) {
    require(sizes.size() <= max_rank, "a tensor has at most {} axes, {} given", max_rank, sizes.size());
    for (int64_t s : sizes) {
      require(s >= 0, "an axis of size {}", s);
      sizes_[rank_++] = s;
    }
  }
  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return sizes_[axis]; }
  int64_t back() const { return rank_ ? sizes_[rank_ - 1] : 1; }
  int64_t count() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= sizes_[i];
    return n;
  }
  void append(int64_t size) {
    require(rank_ < max_rank, "a tensor has at most {} axes", max_rank);
    sizes_[rank_++] = size;
  }
  bool operator==(const Shape& o) const { return rank_ == o.rank_ && std::equal(sizes_.begin(), sizes_.begin() + rank_, o.sizes_.begin()); }
  // "[3, 4]"
  std::string text() const;

 private:
  std::array<int64_t, max_rank> sizes_{};
  int rank_ = 0;
};

}  // namespace tapeformer
