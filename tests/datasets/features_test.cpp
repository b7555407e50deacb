// SPDX-License-Identifier: Apache-2.0
#include "datasets/features.h"

#include <cmath>
#include <limits>

#include "tests/support/catch.h"

using namespace tapeformer::datasets;
using Catch::Matchers::WithinRel;

TEST_CASE("mean and deviation keep their digits far from zero and leave out what is missing") {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  FeatureStatistics s(4);
  const double rows[][4] = {{1e9 + 1, 5, none, 1}, {1e9 + 2, 5, none, none}, {1e9 + 3, 5, none, INFINITY}, {1e9 + 4, 5, none, 3}};
  for (const auto& row : rows) s.add(row);
  CHECK_THAT(s.mean(0), WithinRel(1e9 + 2.5, 1e-15));
  CHECK_THAT(s.deviation(0), WithinRel(std::sqrt(1.25), 1e-12));
  CHECK(s.mean(1) == 5);
  CHECK(s.deviation(1) == 1);  // does not vary
  CHECK(s.mean(2) == 0);
  CHECK(s.deviation(2) == 1);  // never seen
  CHECK(s.mean(3) == 2);
  CHECK(s.deviation(3) == 1);
}
