// SPDX-License-Identifier: Apache-2.0
// Clusters of bit codes: Lloyd's algorithm in Hamming space (Vyas, Katharopoulos, Fleuret 2020, 2007.04825).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace tapeformer::models {

// The cluster of each code, 0 .. centroids - 1; some may have no member. `iterations` assignments to the nearest centroid (the first of
// equals), and before each but the first, every bit of a centroid becomes that of most of its members (0 at a tie); one without members
// stays.
std::vector<int32_t> hamming_clusters(std::span<const uint64_t> codes, std::vector<uint64_t> centroids, int bits, int iterations);

}  // namespace tapeformer::models
