// SPDX-License-Identifier: Apache-2.0
#include "models/attention/hash_rounds.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "models/attention/index_lists.h"
#include "models/attention/tile_bits.h"

namespace tapeformer::models {
namespace {

static_assert(std::endian::native == std::endian::little);

// A round's order; row i stands at place[i] and sees the rows at the `count[i]` places from first[i] on.
struct Round {
  std::vector<int32_t> rows, place, first, count;
};

Round sorted(const HashPattern& pattern, std::span<const int32_t> codes, int32_t buckets) {
  const auto n = static_cast<int64_t>(codes.size());
  ClassOrder order = order_by_class(codes, buckets);
  Round out{std::move(order.rows), std::vector<int32_t>(codes.size()), std::vector<int32_t>(codes.size()),
            std::vector<int32_t>(codes.size())};
  for (int64_t at = 0; at < n; ++at) {
    const auto i = static_cast<size_t>(out.rows[static_cast<size_t>(at)]);
    const int64_t own = at / pattern.chunk;
    int64_t first = std::max<int64_t>(0, (own - pattern.before) * pattern.chunk),
            end = std::min(n, (own + pattern.after + 1) * pattern.chunk);
    if (pattern.same_bucket_only) {
      first = std::max<int64_t>(first, order.begin[static_cast<size_t>(codes[i])]);
      end = std::min<int64_t>(end, order.begin[static_cast<size_t>(codes[i]) + 1]);
    }
    out.place[i] = static_cast<int32_t>(at);
    out.first[i] = static_cast<int32_t>(first);
    out.count[i] = static_cast<int32_t>(end - first);
  }
  return out;
}

// Bit k: bytes[k], which is 0 or 1. The product puts the bits of eight bytes beside each other.
uint64_t gathered(const uint8_t (&bytes)[tile]) {
  uint64_t out = 0;
  for (int k = 0; k < tile; k += 8) {
    uint64_t word;
    std::memcpy(&word, bytes + k, sizeof word);
    out |= (word * 0x0102040810204080u >> 56) << k;
  }
  return out;
}

// The plan of one round among several.
class RoundPlan {
 public:
  RoundPlan(const std::vector<Round>& rounds, size_t own, bool dedup)
      : rounds_(rounds),
        own_(rounds[own]),
        number_(own),
        earlier_(dedup ? own : 0),
        n_(static_cast<int32_t>(own_.rows.size())),
        width_(static_cast<size_t>(TilePlan::tiles_of(n_)) * tile),
        places_(earlier_ * width_) {
    for (size_t s = 0; s < earlier_; ++s)
      for (size_t at = 0; at < own_.rows.size(); ++at)
        places_[s * width_ + at] = static_cast<uint32_t>(rounds[s].place[static_cast<size_t>(own_.rows[at])]);
  }

  TilePlan make() const {
    MaskedPlan plan(n_, n_);
    for (int32_t q = 0; q < n_; q += tile) {
      int32_t first = n_, end = 0;
      for (int32_t at = q; at < std::min(n_, q + tile); ++at) {
        const auto i = static_cast<size_t>(own_.rows[static_cast<size_t>(at)]);
        first = std::min(first, own_.first[i]);
        end = std::max(end, own_.first[i] + own_.count[i]);
      }
      for (int32_t k = first / tile * tile; k < end; k += tile) {
        TileMask mask{};
        for (int32_t at = q; at < std::min(n_, q + tile); ++at) mask.keys[at - q] = seen(at, k);
        plan.add(k / tile, mask);
      }
      plan.end_query_tile();
    }
    TilePlan out = plan.finish();
    out.query_rows = out.key_rows = own_.rows;
    return out;
  }

 private:
  // Which keys of the tile from place k on the query at place `at` sees in this round.
  uint64_t seen(int32_t at, int32_t k) const {
    const auto i = static_cast<size_t>(own_.rows[static_cast<size_t>(at)]);
    uint64_t out = tile_bits(own_.first[i] - k, own_.first[i] + own_.count[i] - k);
    if (out != 0 && earlier_ != 0) out &= ~seen_earlier(i, k);
    const uint64_t self = tile_bits(at - k, at - k + 1);
    return number_ == 0 && alone(i) ? out | self : out & ~self;
  }
  uint64_t seen_earlier(size_t i, int32_t k) const {
    uint8_t found[tile] = {};
    for (size_t s = 0; s < earlier_; ++s) {
      const uint32_t* places = places_.data() + s * width_ + k;
      const auto first = static_cast<uint32_t>(rounds_[s].first[i]), count = static_cast<uint32_t>(rounds_[s].count[i]);
      for (int j = 0; j < tile; ++j) found[j] = static_cast<uint8_t>(found[j] | (places[j] - first < count));
    }
    return gathered(found);
  }
  bool alone(size_t i) const {
    return std::all_of(rounds_.begin(), rounds_.end(), [i](const Round& r) { return r.count[i] == 1; });
  }

  const std::vector<Round>& rounds_;
  const Round& own_;
  size_t number_, earlier_;  // rounds before this one whose pairs are left out
  int32_t n_;
  size_t width_;
  std::vector<uint32_t> places_;  // [earlier_, width_]: places in earlier rounds, in this round's order
};

}  // namespace

std::vector<TilePlan> hash_plans(const HashPattern& pattern, std::span<const std::span<const int32_t>> codes, int32_t buckets) {
  std::vector<Round> rounds;
  for (const std::span<const int32_t>& of_round : codes) rounds.push_back(sorted(pattern, of_round, buckets));
  std::vector<TilePlan> plans;
  for (size_t r = 0; r < rounds.size(); ++r) plans.push_back(RoundPlan(rounds, r, pattern.dedup).make());
  return plans;
}

}  // namespace tapeformer::models
