// SPDX-License-Identifier: Apache-2.0
#include "framework/core/random.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "framework/core/error.h"

namespace tapeformer {
namespace {

uint64_t hash_text(uint64_t seed, const std::string& text) { return XXH64(text.data(), text.size(), seed); }

}  // namespace

PhiloxWords philox(PhiloxWords c, uint64_t key) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b), static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1,
         static_cast<uint32_t>(a)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

uint64_t random_key(uint64_t seed, std::string_view purpose, std::string_view name) {
  return hash_text(seed, fmt::format("{}:{}", purpose, name));
}
uint64_t random_key(uint64_t seed, std::string_view purpose, std::string_view name, int head) {
  return hash_text(seed, fmt::format("{}:{}:{}", purpose, name, head));
}
uint64_t random_key(uint64_t seed, std::string_view purpose, std::string_view name, int head, int round) {
  return hash_text(seed, fmt::format("{}:{}:{}:{}", purpose, name, head, round));
}

double Draw::gaussian(uint32_t row, uint32_t column) const {
  const PhiloxWords w = philox({column / 4, row, sample, step}, key);
  const int pair = static_cast<int>(column % 4) / 2 * 2;
  const double radius = std::sqrt(-2 * std::log(uniform_of(w[pair]))), angle = 2 * std::numbers::pi * uniform_of(w[pair + 1]);
  return radius * (column % 2 ? std::sin(angle) : std::cos(angle));
}

std::vector<int32_t> picks(const Draw& draw, uint32_t row, std::span<const int32_t> candidates, size_t count) {
  std::vector<std::pair<uint32_t, int32_t>> order;
  order.reserve(candidates.size());
  for (const int32_t v : candidates) order.emplace_back(draw.word(row, static_cast<uint32_t>(v)), v);
  count = std::min(count, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end());
  std::vector<int32_t> out;
  for (size_t i = 0; i < count; ++i) out.push_back(order[i].second);
  return out;
}

uint64_t dropout_threshold(double p) {
  require(p >= 0 && p < 1, "a dropout probability of {}", p);
  return static_cast<uint64_t>(std::llround(p * 0x1p32));
}

KeyedPermutation::KeyedPermutation(uint64_t key, uint32_t epoch, uint64_t n) : key_(key), n_(n), epoch_(epoch) {
  require(n >= 1 && n <= (uint64_t{1} << 62), "a permutation of {} elements", n);
  half_bits_ = std::max(1, (static_cast<int>(std::bit_width(n - 1)) + 1) / 2);
}

uint64_t KeyedPermutation::once(uint64_t x) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = x >> half_bits_, right = x & mask;
  for (uint32_t round = 0; round < 4; ++round) {
    const PhiloxWords w = philox({static_cast<uint32_t>(right), round, no_sample, epoch_}, key_);
    const uint64_t next = (left ^ w[0]) & mask;
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

// The Feistel network permutes 0 .. 4^half_bits - 1; values beyond n are permuted again until they fall inside.
uint64_t KeyedPermutation::operator()(uint64_t index) const {
  require(index < n_, "index {} of a permutation of {}", index, n_);
  uint64_t x = once(index);
  while (x >= n_) x = once(x);
  return x;
}

}  // namespace tapeformer
