// SPDX-License-Identifier: Apache-2.0
#include "datasets/split.h"

#include <algorithm>
#include <cstdlib>

#include "tests/support/catch.h"

using namespace tapeformer::data;
using namespace tapeformer::datasets;

namespace {

std::vector<std::string> strata(int a, int b, int c) {
  std::vector<std::string> s(static_cast<size_t>(a), "a");
  s.insert(s.end(), static_cast<size_t>(b), "b");
  s.insert(s.end(), static_cast<size_t>(c), "c");
  return s;
}

int64_t count(const std::vector<Part>& parts, Part part, size_t first, size_t last) {
  return std::count(parts.begin() + static_cast<std::ptrdiff_t>(first), parts.begin() + static_cast<std::ptrdiff_t>(last), part);
}

}  // namespace

TEST_CASE("a split keeps the shares of every class") {
  const auto parts = split_by_seed(strata(500, 100, 40), {0.1, 0.2, 5});
  CHECK(count(parts, Part::valid, 0, 500) == 50);
  CHECK(count(parts, Part::valid, 500, 600) == 10);
  CHECK(count(parts, Part::valid, 600, 640) == 4);
  CHECK(count(parts, Part::test, 0, 500) == 100);
  CHECK(count(parts, Part::test, 500, 600) == 20);
  CHECK(count(parts, Part::test, 600, 640) == 8);
  CHECK(parts == split_by_seed(strata(500, 100, 40), {0.1, 0.2, 5}));
  CHECK(parts != split_by_seed(strata(500, 100, 40), {0.1, 0.2, 6}));
}

TEST_CASE("every class keeps a sample for training, and small classes add up") {
  const auto parts = split_by_seed(strata(1, 2, 3), {0.45, 0.45, 0});
  CHECK(count(parts, Part::train, 0, 1) == 1);
  CHECK(count(parts, Part::train, 1, 3) >= 1);
  CHECK(count(parts, Part::train, 3, 6) >= 1);
  std::vector<std::string> pairs;
  for (int i = 0; i < 100; ++i) pairs.insert(pairs.end(), 2, "class " + std::to_string(i));
  CHECK(count(split_by_seed(pairs, {0.1, 0, 0}), Part::valid, 0, 200) == 20);
  CHECK(split_by_seed({}, {0.1, 0.1, 0}).empty());
}

TEST_CASE("what a class cannot give is not taken from the others") {
  std::vector<std::string> tail;
  for (int i = 0; i < 500; ++i) tail.push_back("class " + std::to_string(i));
  tail.insert(tail.end(), 60, "z");
  const auto parts = split_by_seed(tail, {0.1, 0.2, 0});
  CHECK(count(parts, Part::train, 0, 500) == 500);
  CHECK(count(parts, Part::valid, 500, 560) == 6);
  CHECK(count(parts, Part::test, 500, 560) == 12);
  CHECK(count(split_by_seed(tail, {0.1, 0, 0}), Part::valid, 0, 560) == 6);
  // Of two samples one can be given: both parts get their share of the pairs, though they want it of the same ones.
  std::vector<std::string> pairs;
  for (int i = 0; i < 100; ++i) pairs.insert(pairs.end(), 2, "class " + std::to_string(i));
  const auto both = split_by_seed(pairs, {0.1, 0.1, 0});
  CHECK(count(both, Part::valid, 0, 200) == 20);
  CHECK(count(both, Part::test, 0, 200) == 20);
  const auto most = split_by_seed(pairs, {0.6, 0.3, 0});  // 90 % of them are asked for, half can be had
  CHECK(count(most, Part::train, 0, 200) == 100);
  CHECK(std::abs(count(most, Part::valid, 0, 200) - 67) <= 1);
  CHECK(split_by_seed({"a", "b"}, {}) == std::vector<Part>(2, Part::train));
}
