// SPDX-License-Identifier: Apache-2.0
// Which elements of rows are dropped, for the instruction set being compiled. They are drawn for a run of columns at a time, a bit each,
// and apart from what uses them: beside other arithmetic the chains of Philox would not fit into the registers.
#if defined(TAPEFORMER_SIMD_DROP_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TAPEFORMER_SIMD_DROP_H
#undef TAPEFORMER_SIMD_DROP_H
#else
#define TAPEFORMER_SIMD_DROP_H
#endif
#include "framework/kernels/cpu/simd/philox.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {

using Dropped = hn::Mask<D>;

HWY_INLINE uint32_t bits_of(hn::Mask<D32> mask) {
  uint8_t bytes[8] = {};
  hn::StoreMaskBits(D32(), mask, bytes);
  return static_cast<uint32_t>(bytes[0]) | (kLanes > 8 ? static_cast<uint32_t>(bytes[1]) << 8 : 0);
}

// The lanes whose bits are 1.
HWY_INLINE Dropped lanes_of(uint32_t bits) {
  const D32 d;
  return hn::RebindMask(D(), hn::TestBit(hn::Set(d, bits), hn::Shl(hn::Set(d, 1u), hn::Iota(d, 0u))));
}

// The dropout of a call's rows.
class Drop {
 public:
  static constexpr int run = 256;  // columns drawn at a time

  Drop(uint64_t key, uint64_t threshold, float scale, uint32_t step) : keys_(key), threshold_(threshold), scale_(scale), step_(step) {}
  explicit Drop(const DropoutRows& p) : Drop(p.key, p.threshold, p.scale, p.step) { rows_ = p; }

  HWY_INLINE bool on() const { return threshold_ != 0; }
  HWY_INLINE V apply(V v, Dropped dropped) const { return hn::IfThenZeroElse(dropped, hn::Mul(v, hn::Set(D(), scale_))); }

  // Bit c % 32 of bits[c / 32]: whether column column0 + c of (row, sample) is dropped, for c below width and perhaps some beyond, in as
  // many words as the next multiple of 64 takes. column0 is a multiple of 4.
  HWY_NOINLINE void draw(uint32_t row, uint32_t sample, int column0, int width, uint32_t* HWY_RESTRICT bits) const {
    if (threshold_ >> 32) {
      for (int c = 0; c < width; c += 32) bits[c / 32] = ~uint32_t{0};
      return;
    }
    constexpr int half = kChains > 1 ? kChains / 2 : 1;
    for (int c = 0; c < width; c += kChains * kCols) {
      if (width - c > half * kCols) draw_some<kChains>(row, sample, column0, c, bits);
      else draw_some<half>(row, sample, column0, c, bits);
    }
  }

  // Adds the bits of `count` columns in any order, up to 64, to zeros.
  HWY_INLINE void draw_at(uint32_t row, uint32_t sample, const int32_t* columns, int count, uint32_t* HWY_RESTRICT bits) const {
    uint32_t words[64];
    philox_at(keys_, columns, count, row, sample, step_, words);
    for (int i = 0; i < count; ++i) bits[i / 32] |= static_cast<uint32_t>(words[i] < threshold_) << i % 32;
  }

  // Calls f(c, dropped) for c = 0, kLanes, ... below `width`: which of the elements column0 + c ... of row r are dropped. column0 is a
  // multiple of 64.
  template <class F>
  HWY_INLINE void each(ptrdiff_t r, int column0, int width, const F& f) const {
    for (int c0 = 0; c0 < width; c0 += run) {
      uint32_t own[run / 32];
      uint32_t* const bits = rows_.room ? rows_.room + r * rows_.row_words + (column0 + c0) / 32 : own;
      const int some = smaller(run, width - c0);
      if (!rows_.drawn || !rows_.room) draw(static_cast<uint32_t>(rows_.positions[r]), rows_.samples[r], column0 + c0, some, bits);
      for (int c = 0; c < some; c += 32) {
#pragma GCC unroll 4
        for (int i = 0; i < 32; i += kLanes)
          if (c + i < some) f(c0 + c + i, lanes_of(bits[c / 32] >> i));
      }
    }
  }

 private:
  template <int n>
  HWY_INLINE void draw_some(uint32_t row, uint32_t sample, int column0, int c, uint32_t* HWY_RESTRICT bits) const {
    const V32 threshold = hn::Set(D32(), static_cast<uint32_t>(threshold_));
    Words w[n];
    philox_blocks(keys_, static_cast<uint32_t>(column0 + c), row, sample, step_, w);
#pragma GCC unroll 4
    for (int i = 0; i < n; ++i) {
      const int at = c + i * kCols;
      const uint32_t two = bits_of(hn::Lt(w[i].v[0], threshold)) | bits_of(hn::Lt(w[i].v[1], threshold)) << kLanes;
      bits[at / 32] = at % 32 == 0 ? two : bits[at / 32] | two << at % 32;
    }
  }

  Schedule keys_;
  uint64_t threshold_;
  float scale_;
  uint32_t step_;
  DropoutRows rows_;
};

}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();
#endif
