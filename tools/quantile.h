// SPDX-License-Identifier: Apache-2.0
// Quantiles of what was measured.
#pragma once
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace tapeformer::tools {

// The share q of the values lies below it, linear between the two nearest ranks (type 7 of Hyndman and Fan 1996, "Sample quantiles in
// statistical packages"). There must be a value.
inline double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

// Of an even number of values the mean of the two in the middle.
inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

}  // namespace tapeformer::tools
