// SPDX-License-Identifier: Apache-2.0
// Mean and deviation of the features of numeric sequences, gathered row by row, and what a description says of them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "datasets/settings.h"
#include "framework/data/dataset.h"

namespace tapeformer::datasets {

class FeatureStatistics {
 public:
  explicit FeatureStatistics(size_t features) : counts_(features), means_(features), squares_(features) {}
  // One row, as if it stood `times` times in the data; values that are missing or not finite are left out.
  void add(const double* row, int64_t times = 1);
  double mean(size_t feature) const { return means_[feature]; }
  // Of the population; 1 for a feature that does not vary.
  double deviation(size_t feature) const;

 private:
  std::vector<int64_t> counts_;
  std::vector<double> means_, squares_;
};

// Names, with flag columns where missing values get them, and the statistics where features are standardised.
void describe_features(const DataSettings&, const std::vector<std::string>& names, const FeatureStatistics&, data::Description&);

}  // namespace tapeformer::datasets
