// SPDX-License-Identifier: Apache-2.0
// Randomness as a function of names and places, not a stream: Philox-4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel
// random numbers: as easy as 1, 2, 3"). The same draw comes out in forward, backward and recompute, on every device.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tapeformer {

using PhiloxWords = std::array<uint32_t, 4>;

// One block: `key` low word first, `counter` = (column / 4, row, sample id, step).
PhiloxWords philox(PhiloxWords counter, uint64_t key);

// XXH64 of "<purpose>:<name>[:<head>[:<round>]]" with the run's seed as its seed.
uint64_t random_key(uint64_t seed, std::string_view purpose, std::string_view name);
uint64_t random_key(uint64_t seed, std::string_view purpose, std::string_view name, int head);
uint64_t random_key(uint64_t seed, std::string_view purpose, std::string_view name, int head, int round);

// The sample id of draws that belong to no sample.
constexpr uint32_t no_sample = 0xffffffffu;

struct Draw {
  uint64_t key;
  uint32_t sample, step;
  uint32_t word(uint32_t row, uint32_t column) const { return philox({column / 4, row, sample, step}, key)[column % 4]; }
  double uniform(uint32_t row, uint32_t column) const { return uniform_of(word(row, column)); }
  // In the open interval (0, 1).
  static double uniform_of(uint32_t word) { return (word + 0.5) * 0x1p-32; }
  // Standard normal by Box-Muller on words (0, 1) and (2, 3) of the block, in double.
  double gaussian(uint32_t row, uint32_t column) const;
};

// The `count` candidates with the smallest words of a row, in the order of their words (ties: the smaller candidate first); all of them
// where there are fewer. Candidate v has the word of column v, so a choice does not depend on what else could be chosen.
std::vector<int32_t> picks(const Draw&, uint32_t row, std::span<const int32_t> candidates, size_t count);

// Keep a value iff word >= the threshold: round(p * 2^32), compared in 64 bits.
uint64_t dropout_threshold(double p);

// A permutation of 0 .. n-1 as a function of (key, epoch, index): four Feistel rounds of Philox with cycle walking.
class KeyedPermutation {
 public:
  KeyedPermutation(uint64_t key, uint32_t epoch, uint64_t n);
  uint64_t operator()(uint64_t index) const;

 private:
  uint64_t once(uint64_t x) const;
  uint64_t key_, n_;
  uint32_t epoch_;
  int half_bits_;
};

}  // namespace tapeformer
