// SPDX-License-Identifier: Apache-2.0
// Quantiles against values worked out by hand.
#include "tools/quantile.h"

#include "tests/support/catch.h"

using tapeformer::tools::median;
using tapeformer::tools::quantile;

TEST_CASE("the median is the value in the middle, or the mean of the two there", "[quick]") {
  CHECK(median({7}) == 7);
  CHECK(median({3, 1}) == 2);
  CHECK(median({9, 1, 5}) == 5);
  CHECK(median({8, 1, 2, 4}) == 3);
  CHECK(median({1, 1, 1, 100}) == 1);
}

TEST_CASE("quantiles are linear between ranks", "[quick]") {
  const std::vector<double> values{50, 10, 40, 20, 30};
  CHECK(quantile(values, 0) == 10);
  CHECK(quantile(values, 0.25) == 20);
  CHECK(quantile(values, 0.625) == 35);
  CHECK(quantile(values, 1) == 50);
  CHECK(quantile({4}, 0.75) == 4);
}
