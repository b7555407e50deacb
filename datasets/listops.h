// SPDX-License-Identifier: Apache-2.0
// ListOps: nested lists of digits under MIN, MAX, MED and SM, to be evaluated to one digit (Nangia and Bowman 2018, "ListOps: A diagnostic
// dataset for latent tree learning"; the long form of Tay et al. 2021, "Long Range Arena"). Generated from a seed: the same bytes
// everywhere.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "framework/config/section.h"

namespace tapeformer::datasets {

// The defaults are the published setting of Long Range Arena.
struct ListopsSettings {
  uint64_t seed = 0;
  std::vector<std::string> operators{"MIN", "MAX", "MED", "SM"};
  int64_t min_arguments = 2, max_arguments = 10;
  int64_t max_depth = 10;                       // the root is on level 1; nodes on this level are digits
  double operator_probability = 0.25;           // above that level
  std::vector<double> digit_probability;        // by level, the last one also for all below: takes the place of operator_probability
  int64_t min_length = 500, max_length = 2000;  // a tree is kept when min_length < tokens < max_length
  int64_t train = 96000, valid = 2000, test = 2000;

  // Keys of one section.
  static ListopsSettings read(config::Section);
};

struct ListopsSample {
  std::string source;
  int target = 0;
};

// As many distinct trees as the three parts need together, in the order train, valid, test. Error(usage) when the settings allow too few.
std::vector<ListopsSample> generate_listops(const ListopsSettings&);

// Writes train.tsv, valid.tsv and test.tsv with the columns Source and Target into the directory, which is made if need be. They are
// written aside, and get their names when all three are complete.
void make_listops(const ListopsSettings&, const std::filesystem::path& directory);

}  // namespace tapeformer::datasets
