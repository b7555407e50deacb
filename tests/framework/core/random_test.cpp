// SPDX-License-Identifier: Apache-2.0
// Philox against its published vectors, and the properties of draws and keyed permutations.
#include "framework/core/random.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "tests/support/catch.h"

using namespace tapeformer;

TEST_CASE("philox gives its published words", "[random]") {
  CHECK(philox({0, 0, 0, 0}, 0) == PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({~0u, ~0u, ~0u, ~0u}, ~0ull) == PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822ull) ==
        PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("keys differ by purpose, name, head, round and seed", "[random]") {
  const std::set<uint64_t> keys{random_key(1, "dropout", "a"),          random_key(2, "dropout", "a"),
                                random_key(1, "init", "a"),             random_key(1, "dropout", "b"),
                                random_key(1, "dropout", "a", 0),       random_key(1, "dropout", "a", 1),
                                random_key(1, "dropout", "a", 1, 0)};
  CHECK(keys.size() == 7);
}

TEST_CASE("N-10, J08: no two draws of a purpose, sample and step are equal", "[random]") {
  // 64 bits of each draw: among 10^7 of them chance makes two equal once in 400,000 seeds.
  std::vector<uint64_t> draws;
  for (const char* name : {"embedding", "encoder.layers.0.attention", "encoder.layers.0.feed_forward", "encoder.layers.1.attention"}) {
    const uint64_t key = random_key(7, "dropout", name);
    for (uint32_t sample = 0; sample < 2500; ++sample)
      for (uint32_t step = 1; step <= 1000; ++step) {
        const auto words = philox({0, 0, sample, step}, key);
        draws.push_back(uint64_t{words[0]} << 32 | words[1]);
      }
  }
  REQUIRE(draws.size() == 10000000);
  std::sort(draws.begin(), draws.end());
  CHECK(std::adjacent_find(draws.begin(), draws.end()) == draws.end());
}

TEST_CASE("N-10: no two keys of a seed, purpose and name are equal", "[random]") {
  std::vector<uint64_t> keys;
  for (uint64_t seed = 0; seed < 50; ++seed)
    for (const char* purpose : {"init", "dropout", "order", "split"})
      for (int layer = 0; layer < 100; ++layer)
        for (const char* part : {"attention", "attention.query.weight", "feed_forward", "feed_forward.up.weight", "norm"}) {
          const std::string name = "encoder.layers." + std::to_string(layer) + "." + part;
          keys.push_back(random_key(seed, purpose, name));
          for (int head = 0; head < 4; ++head) keys.push_back(random_key(seed, purpose, name, head));
        }
  std::sort(keys.begin(), keys.end());
  CHECK(keys.size() == 500000);
  CHECK(std::adjacent_find(keys.begin(), keys.end()) == keys.end());
}

TEST_CASE("gaussian draws have mean 0 and variance 1", "[random]") {
  const Draw draw{random_key(7, "init", "w"), no_sample, 0};
  double sum = 0, squares = 0;
  const int n = 40000;
  for (int i = 0; i < n; ++i) {
    const double g = draw.gaussian(static_cast<uint32_t>(i / 100), static_cast<uint32_t>(i % 100));
    sum += g;
    squares += g * g;
  }
  CHECK(std::abs(sum / n) < 0.02);
  CHECK(std::abs(squares / n - 1) < 0.03);
}

TEST_CASE("a keyed permutation visits every index once and differs by epoch", "[random]") {
  for (const uint64_t n : {1ull, 2ull, 3ull, 17ull, 64ull, 1000ull}) {
    std::set<uint64_t> seen;
    int same = 0;
    const KeyedPermutation first(5, 0, n), second(5, 1, n);
    for (uint64_t i = 0; i < n; ++i) {
      seen.insert(first(i));
      CHECK(first(i) < n);
      same += first(i) == second(i);
    }
    CHECK(seen.size() == n);
    if (n >= 64) CHECK(same < static_cast<int>(n / 4));
  }
}

TEST_CASE("picks are the candidates with the smallest words, whatever else could be picked", "[random]") {
  const Draw draw{random_key(7, "layout", "a", 1), no_sample, 9};
  std::vector<int32_t> all(50);
  for (int32_t v = 0; v < 50; ++v) all[static_cast<size_t>(v)] = v;
  const std::vector<int32_t> order = picks(draw, 3, all, 99);
  CHECK(order.size() == 50);
  for (size_t i = 1; i < order.size(); ++i)
    CHECK(draw.word(3, static_cast<uint32_t>(order[i - 1])) <= draw.word(3, static_cast<uint32_t>(order[i])));
  CHECK(picks(draw, 3, all, 4) == std::vector<int32_t>(order.begin(), order.begin() + 4));
  std::vector<int32_t> without = all;
  without.erase(without.begin() + order[0]);
  CHECK(picks(draw, 3, without, 3) == std::vector<int32_t>(order.begin() + 1, order.begin() + 4));
  CHECK(picks(draw, 4, all, 4) != picks(draw, 3, all, 4));
  CHECK(picks(draw, 3, {}, 4).empty());
}

TEST_CASE("dropout thresholds are rounded to 32 bits", "[random]") {
  CHECK(dropout_threshold(0) == 0);
  CHECK(dropout_threshold(0.5) == 0x80000000ull);
  CHECK_THROWS(dropout_threshold(1.0));
}
