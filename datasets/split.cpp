// SPDX-License-Identifier: Apache-2.0
#include "datasets/split.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "framework/core/random.h"

namespace tapeformer::datasets {
namespace {

// Shares of classes, rounded so that the sum over the classes so far is right to one half.
class Share {
 public:
  explicit Share(double share) : share_(share) {}
  int64_t of(double samples, int64_t most) {
    wanted_ += share_ * samples;
    const int64_t n = std::clamp<int64_t>(std::llround(wanted_) - taken_, 0, std::max<int64_t>(most, 0));
    taken_ += n;
    return n;
  }

 private:
  double share_, wanted_ = 0;
  int64_t taken_ = 0;
};

}  // namespace

std::vector<data::Part> split_by_seed(const std::vector<std::string>& strata, const Split& split) {
  std::vector<data::Part> parts(strata.size(), data::Part::train);
  std::map<std::string_view, std::vector<size_t>> members;
  for (size_t i = 0; i < strata.size(); ++i) members[strata[i]].push_back(i);
  if (split.valid + split.test <= 0) return parts;
  Share valid(split.valid), test(split.test);
  for (const auto& [name, rows] : members) {
    const auto n = static_cast<int64_t>(rows.size());
    // Parts have their shares of what a class can give, which is all but one sample: the rest is not owed by the classes after it.
    const double shared = std::min(static_cast<double>(n), static_cast<double>(n - 1) / (split.valid + split.test));
    const int64_t to_valid = valid.of(shared, n - 1);
    const int64_t to_test = test.of(shared, n - 1 - to_valid);
    const KeyedPermutation order(random_key(split.seed, "split", name), 0, rows.size());
    for (int64_t i = 0; i < to_valid + to_test; ++i)
      parts[rows[order(static_cast<uint64_t>(i))]] = i < to_valid ? data::Part::valid : data::Part::test;
  }
  return parts;
}

}  // namespace tapeformer::datasets
