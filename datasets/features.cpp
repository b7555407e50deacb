// SPDX-License-Identifier: Apache-2.0
#include "datasets/features.h"

#include <cmath>

#include "framework/data/encoder.h"

namespace tapeformer::datasets {

// Welford's update, which keeps its digits when the mean is far from zero, with weights (West 1979, Communications of the ACM 22(9)).
void FeatureStatistics::add(const double* row, int64_t times) {
  if (times == 0) return;
  const auto weight = static_cast<double>(times);
  for (size_t f = 0; f < counts_.size(); ++f) {
    if (!data::is_usable(row[f])) continue;
    const double before = row[f] - means_[f];
    counts_[f] += times;
    means_[f] += before * weight / static_cast<double>(counts_[f]);
    squares_[f] += weight * before * (row[f] - means_[f]);
  }
}

double FeatureStatistics::deviation(size_t feature) const {
  if (counts_[feature] == 0 || squares_[feature] <= 0) return 1;
  return std::sqrt(squares_[feature] / static_cast<double>(counts_[feature]));
}

void describe_features(const DataSettings& settings, const std::vector<std::string>& names, const FeatureStatistics& statistics,
                       data::Description& d) {
  const bool flags = settings.missing == data::Missing::zero_with_flag;
  d.feature_names = names;
  std::vector<double> mean, deviation;
  for (size_t f = 0; f < names.size(); ++f) {
    mean.push_back(statistics.mean(f));
    deviation.push_back(statistics.deviation(f));
  }
  if (flags) {
    for (const std::string& name : names) d.feature_names.push_back(name + ".missing");
    mean.resize(2 * names.size(), 0);
    deviation.resize(2 * names.size(), 1);
  }
  if (!settings.standardize) return;
  d.feature_mean = Tensor::of(mean);
  d.feature_deviation = Tensor::of(deviation);
}

}  // namespace tapeformer::datasets
