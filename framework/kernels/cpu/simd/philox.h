// SPDX-License-Identifier: Apache-2.0
// Philox-4x32-10 (Salmon, Moraes, Dror, Shaw 2011) for several counters at a time, equal to framework/core/random.h bit for bit, for the
// instruction set being compiled.
#if defined(TAPEFORMER_SIMD_PHILOX_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TAPEFORMER_SIMD_PHILOX_H
#undef TAPEFORMER_SIMD_PHILOX_H
#else
#define TAPEFORMER_SIMD_PHILOX_H
#endif
#include "framework/kernels/cpu/simd/tile.h"

HWY_BEFORE_NAMESPACE();
namespace tapeformer::simd {
namespace HWY_NAMESPACE {

using D32 = hn::RebindToUnsigned<D>;
using V32 = hn::Vec<D32>;

struct Words {
  V32 v[2];
};

#if HWY_TARGET == HWY_SCALAR

constexpr int kChains = 1;

class Schedule {
 public:
  explicit Schedule(uint64_t key) : key_(key) {}
  uint64_t key() const { return key_; }

 private:
  uint64_t key_;
};

// The words of columns column and column + 1 of (row, sample, step); column is even.
HWY_INLINE Words philox(uint64_t key, uint32_t column, uint32_t row, uint32_t sample, uint32_t step) {
  uint32_t c[4] = {column / 4, row, sample, step}, k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
    c[0] = static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0;
    c[2] = static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1;
    c[1] = static_cast<uint32_t>(b);
    c[3] = static_cast<uint32_t>(a);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{hn::Set(D32(), c[column % 4]), hn::Set(D32(), c[column % 4 + 1])}};
}

template <int n>
HWY_INLINE void philox_blocks(const Schedule& keys, uint32_t column, uint32_t row, uint32_t sample, uint32_t step, Words (&out)[n]) {
  for (int i = 0; i < n; ++i) out[i] = philox(keys.key(), column + static_cast<uint32_t>(i * kCols), row, sample, step);
}

// The words of `count` columns in any order, of (row, sample, step).
HWY_INLINE void philox_at(const Schedule& keys, const int32_t* HWY_RESTRICT columns, int count, uint32_t row, uint32_t sample,
                          uint32_t step, uint32_t* HWY_RESTRICT words) {
  for (int i = 0; i < count; ++i) {
    const uint32_t column = static_cast<uint32_t>(columns[i]);
    words[i] = hn::GetLane(philox(keys.key(), column / 2 * 2, row, sample, step).v[column % 2]);
  }
}

#else

using D64 = hn::RepartitionToWide<D32>;
using V64 = hn::Vec<D64>;
constexpr int kCounters = kLanes / 2;  // counters at a time: 4 words each make kCols words

// Chains of ten rounds side by side: one alone leaves the multipliers idle most of the time.
constexpr int kChains = kLanes == 16 ? 2 : 4;

// The keys of the ten rounds in all lanes, made once for many rows: operands in memory, so that registers are left for the chains.
class Schedule {
 public:
  explicit Schedule(uint64_t key) {
    uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
      hn::Store(hn::Set(D64(), uint64_t{k0}), D64(), keys_[round][0]);
      hn::Store(hn::Set(D64(), uint64_t{k1}), D64(), keys_[round][1]);
    }
  }
  HWY_INLINE V64 key(int round, int word) const { return hn::Load(D64(), keys_[round][word]); }

 private:
  alignas(64) uint64_t keys_[10][2][kCounters];
};

// The ten rounds on n counters side by side, their words c0 ... c3 in the low halves of the lanes; the high halves of c0 ... c3 are free.
template <int n>
HWY_INLINE void philox_rounds(const Schedule& keys, V64 (&c0)[n], V64 (&c1)[n], V64 (&c2)[n], V64 (&c3)[n]) {
  const D32 d;
  const D64 dd;
  const V32 m0 = hn::Set(d, 0xD2511F53u), m1 = hn::Set(d, 0xCD9E8D57u);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 4
    for (int i = 0; i < n; ++i) {
      const V64 a = hn::MulEven(hn::BitCast(d, c0[i]), m0), b = hn::MulEven(hn::BitCast(d, c2[i]), m1);
      // One high half by a shift and one by a shuffle: with AVX-512 each of the two has one port of its own.
      c0[i] = hn::Xor3(hn::ShiftRight<32>(b), c1[i], keys.key(round, 0));
      c2[i] = hn::Xor3(hn::BitCast(dd, hn::Shuffle2301(hn::BitCast(d, a))), c3[i], keys.key(round, 1));
      c1[i] = b;
      c3[i] = a;
    }
  }
}

// The words of n times kCols columns from `column` on, of (row, sample, step); column is a multiple of 4. The four words of a counter live
// in the low halves of 64-bit lanes: only those take part in the products, and what is left in the high halves never reaches a result.
template <int n>
HWY_INLINE void philox_blocks(const Schedule& keys, uint32_t column, uint32_t row, uint32_t sample, uint32_t step, Words (&out)[n]) {
  const D32 d;
  const D64 dd;
  // Lane 2b holds counter b and lane 2b + 1 counter b + kCounters / 2, so that interleaving 64-bit pairs at the end gives the columns'
  // order.
  alignas(64) static constexpr uint64_t order[8] = {0, kCounters / 2, 1, kCounters / 2 + 1, 2, kCounters / 2 + 2, 3, kCounters / 2 + 3};
  V64 c0[n], c1[n], c2[n], c3[n];
#pragma GCC unroll 4
  for (int i = 0; i < n; ++i) {
    c0[i] = hn::Add(hn::Load(dd, order), hn::Set(dd, column / 4 + static_cast<uint32_t>(i * kCounters)));
    c1[i] = hn::Set(dd, row);
    c2[i] = hn::Set(dd, sample);
    c3[i] = hn::Set(dd, step);
  }
  philox_rounds(keys, c0, c1, c2, c3);
#pragma GCC unroll 4
  for (int i = 0; i < n; ++i) {
    const V64 w01 = hn::BitCast(dd, hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(c1[i])), hn::BitCast(d, c0[i])));
    const V64 w23 = hn::BitCast(dd, hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(c3[i])), hn::BitCast(d, c2[i])));
    out[i] = {{hn::BitCast(d, hn::InterleaveLower(dd, w01, w23)), hn::BitCast(d, hn::InterleaveUpper(dd, w01, w23))}};
  }
}

// The words of `count` columns in any order, of (row, sample, step).
HWY_INLINE void philox_at(const Schedule& keys, const int32_t* HWY_RESTRICT columns, int count, uint32_t row, uint32_t sample,
                          uint32_t step, uint32_t* HWY_RESTRICT words) {
  const D64 dd;
  constexpr int n = 2, lanes = kLanes / 2;
  for (int at = 0; at < count; at += n * lanes) {
    alignas(64) uint64_t column[n * lanes];
    for (int i = 0; i < n * lanes; ++i) column[i] = static_cast<uint32_t>(columns[smaller(at + i, count - 1)]);
    V64 c0[n], c1[n], c2[n], c3[n];
#pragma GCC unroll 2
    for (int i = 0; i < n; ++i) {
      c0[i] = hn::ShiftRight<2>(hn::Load(dd, column + i * lanes));
      c1[i] = hn::Set(dd, row);
      c2[i] = hn::Set(dd, sample);
      c3[i] = hn::Set(dd, step);
    }
    philox_rounds(keys, c0, c1, c2, c3);
#pragma GCC unroll 2
    for (int i = 0; i < n; ++i) {
      const V64 word = hn::And(hn::Load(dd, column + i * lanes), hn::Set(dd, uint64_t{3}));
      const V64 low = hn::IfThenElse(hn::Eq(word, hn::Set(dd, uint64_t{1})), c1[i], c0[i]);
      const V64 high = hn::IfThenElse(hn::Eq(word, hn::Set(dd, uint64_t{3})), c3[i], c2[i]);
      hn::Store(hn::IfThenElse(hn::Lt(word, hn::Set(dd, uint64_t{2})), low, high), dd, column + i * lanes);
    }
    for (int i = 0; i < smaller(n * lanes, count - at); ++i) words[at + i] = static_cast<uint32_t>(column[i]);
  }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace tapeformer::simd
HWY_AFTER_NAMESPACE();
#endif
