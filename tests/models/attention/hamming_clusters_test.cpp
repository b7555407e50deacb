// SPDX-License-Identifier: Apache-2.0
// Lloyd's algorithm on bit codes against its definition, and its corners.
#include "models/attention/hamming_clusters.h"

#include <bit>

#include "framework/core/random.h"
#include "tests/support/catch.h"

using namespace tapeformer;

namespace {

std::vector<uint64_t> codes(int n, int bits, uint32_t seed) {
  const Draw draw{seed, 0, 0};
  std::vector<uint64_t> out;
  for (uint32_t i = 0; i < static_cast<uint32_t>(n); ++i)
    out.push_back((uint64_t{draw.word(i, 0)} << 32 | draw.word(i, 1)) & (bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1));
  return out;
}

std::vector<int32_t> expected(const std::vector<uint64_t>& x, std::vector<uint64_t> centroids, int bits, int iterations) {
  std::vector<int32_t> cluster(x.size());
  for (int l = 0; l < iterations; ++l) {
    for (size_t c = 0; l > 0 && c < centroids.size(); ++c) {
      uint64_t next = 0;
      int members = 0;
      for (size_t i = 0; i < x.size(); ++i) members += cluster[i] == static_cast<int32_t>(c);
      for (int b = 0; b < bits; ++b) {
        int set = 0;
        for (size_t i = 0; i < x.size(); ++i) set += cluster[i] == static_cast<int32_t>(c) && (x[i] >> b & 1);
        if (set > members - set) next |= uint64_t{1} << b;
      }
      if (members > 0) centroids[c] = next;
    }
    for (size_t i = 0; i < x.size(); ++i) {
      int best = 0;
      for (size_t c = 1; c < centroids.size(); ++c)
        if (std::popcount(x[i] ^ centroids[c]) < std::popcount(x[i] ^ centroids[static_cast<size_t>(best)])) best = static_cast<int>(c);
      cluster[i] = best;
    }
  }
  return cluster;
}

}  // namespace

TEST_CASE("codes are grouped as Lloyd's algorithm says", "[hamming_clusters]") {
  int moved = 0;
  for (const int bits : {1, 5, 32, 64})
    for (const int iterations : {1, 2, 3, 10}) {
      const std::vector<uint64_t> x = codes(200, bits, 7);
      const std::vector<uint64_t> start(x.begin(), x.begin() + 9);
      INFO(bits << " bits, " << iterations << " iterations");
      CHECK(models::hamming_clusters(x, start, bits, iterations) == expected(x, start, bits, iterations));
      moved += expected(x, start, bits, iterations) != expected(x, start, bits, 1);
    }
  CHECK(moved > 3);
}

TEST_CASE("equal codes share the first of equal centroids", "[hamming_clusters]") {
  CHECK(models::hamming_clusters(std::vector<uint64_t>(4, 5), {7, 5, 5}, 3, 4) == std::vector<int32_t>(4, 1));
  CHECK(models::hamming_clusters({}, {}, 3, 4).empty());
  CHECK(models::hamming_clusters(std::vector<uint64_t>{0, 3}, {1}, 2, 1) == std::vector<int32_t>(2, 0));
}
