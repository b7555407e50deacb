// SPDX-License-Identifier: Apache-2.0
// The largest rows against sorting all of them; ties, zeros of both signs, infinities and NaN.
#include "models/attention/largest.h"

#include <cmath>
#include <numeric>

#include "framework/core/random.h"
#include "tests/support/catch.h"

using namespace tapeformer;

TEMPLATE_TEST_CASE("the largest rows are those that sorting finds", "[largest]", float, double) {
  const Draw draw{5, 0, 0};
  for (const int32_t n : {1, 2, 63, 500})
    for (const int kinds : {3, 1000000}) {
      std::vector<TestType> scores;
      for (int32_t i = 0; i < n; ++i)
        scores.push_back(
            static_cast<TestType>(static_cast<int>(draw.word(static_cast<uint32_t>(i), 0) % static_cast<uint32_t>(kinds)) - kinds / 2) / 7);
      std::vector<int32_t> order(static_cast<size_t>(n));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int32_t a, int32_t b) { return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)]; });
      for (const int32_t count : {1, n / 3 + 1, n}) {
        std::vector<int32_t> expected(order.begin(), order.begin() + count);
        std::sort(expected.begin(), expected.end());
        CHECK(models::largest(scores.data(), n, count) == expected);
      }
    }
}

TEST_CASE("zeros are equal, infinities have their place, and a NaN breaks nothing", "[largest]") {
  const std::vector<float> zeros{-0.f, 0.f, -0.f, 0.f}, ends{-INFINITY, 1, INFINITY, -1};
  CHECK(models::largest(zeros.data(), 4, 2) == std::vector<int32_t>{0, 1});
  CHECK(models::largest(ends.data(), 4, 3) == std::vector<int32_t>{1, 2, 3});
  std::vector<double> nan(70, NAN);
  nan[5] = 1;
  CHECK(models::largest(nan.data(), 70, 10).size() == 10);
  CHECK(models::largest(nan.data(), 70, 70).size() == 70);
}
