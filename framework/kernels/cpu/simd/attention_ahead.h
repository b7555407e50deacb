// SPDX-License-Identifier: Apache-2.0
// Asks for the rows of the next tile beside the arithmetic of this one. A head's rows lie apart, so the hardware does not guess where the
// next tile begins: without this, packing waits for memory and takes a tenth of the time of short patterns.
#if defined(TAPEFORMER_SIMD_ATTENTION_AHEAD_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TAPEFORMER_SIMD_ATTENTION_AHEAD_H
#undef TAPEFORMER_SIMD_ATTENTION_AHEAD_H
#else
#define TAPEFORMER_SIMD_ATTENTION_AHEAD_H
#endif
#include "framework/kernels/cpu/simd/attention_tile.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {

class Ahead {
 public:
  explicit Ahead(int head_dim) : head_dim_(head_dim) {}

  // Rows first ... first + rows - 1 of the list, or of x without one.
  HWY_INLINE void add(ConstRows x, const int32_t* list, int first, int rows) { sources_[count_++] = {x, list, first, rows}; }

  // A strip's share of the rows.
  HWY_NOINLINE void some() {
    for (int n = 0; n < kShare && at_ < count_; ++n) {
      const Source& s = sources_[at_];
      const float* row = s.x.row(s.list ? s.list[s.first + row_] : s.first + row_);
      for (int c = 0; c < head_dim_; c += kLine) __builtin_prefetch(row + c, 0, 2);
      if (++row_ < s.rows) continue;
      row_ = 0;
      ++at_;
    }
  }

 private:
  static constexpr int kMost = 3, kLine = 16;    // floats of a cache line
  static constexpr int kShare = kMost * kStrip;  // a tile of each source in the strips of a pair of tiles
  struct Source {
    ConstRows x;
    const int32_t* list;
    int first, rows;
  };
  Source sources_[kMost];
  int count_ = 0, at_ = 0, row_ = 0, head_dim_;
};

}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();
#endif
