// SPDX-License-Identifier: Apache-2.0
#include "models/attention/hamming_clusters.h"

namespace tapeformer::models {
namespace {

// Sums of ever wider fields: in a loop over rows this runs in vector registers.
inline uint64_t ones(uint64_t x) {
  x -= x >> 1 & 0x5555555555555555u;
  x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
  x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  x += x >> 8;
  x += x >> 16;
  x += x >> 32;
  return x & 0x7f;
}

void assign(std::span<const uint64_t> codes, const std::vector<uint64_t>& centroids, std::vector<uint64_t>& distance,
            std::vector<int32_t>& cluster) {
  distance.assign(codes.size(), 65);
  for (size_t c = 0; c < centroids.size(); ++c)
    for (size_t i = 0; i < codes.size(); ++i) {
      const uint64_t d = ones(codes[i] ^ centroids[c]);
      const bool nearer = d < distance[i];
      distance[i] = nearer ? d : distance[i];
      cluster[i] = nearer ? static_cast<int32_t>(c) : cluster[i];
    }
}

void move(std::span<const uint64_t> codes, const std::vector<int32_t>& cluster, int bits, std::vector<uint64_t>& centroids) {
  const auto width = static_cast<size_t>(bits);
  std::vector<int32_t> members(centroids.size()), set(centroids.size() * width);
  for (size_t i = 0; i < codes.size(); ++i) {
    const auto c = static_cast<size_t>(cluster[i]);
    ++members[c];
    for (size_t b = 0; b < width; ++b) set[c * width + b] += static_cast<int32_t>(codes[i] >> b & 1);
  }
  for (size_t c = 0; c < centroids.size(); ++c) {
    if (members[c] == 0) continue;
    centroids[c] = 0;
    for (size_t b = 0; b < width; ++b) centroids[c] |= uint64_t{2 * set[c * width + b] > members[c]} << b;
  }
}

}  // namespace

std::vector<int32_t> hamming_clusters(std::span<const uint64_t> codes, std::vector<uint64_t> centroids, int bits, int iterations) {
  std::vector<uint64_t> distance;
  std::vector<int32_t> cluster(codes.size());
  assign(codes, centroids, distance, cluster);
  for (int l = 1; l < iterations; ++l) {
    const std::vector<int32_t> before = cluster;
    move(codes, cluster, bits, centroids);
    assign(codes, centroids, distance, cluster);
    if (cluster == before) break;  // no later iteration changes anything
  }
  return cluster;
}

}  // namespace tapeformer::models
