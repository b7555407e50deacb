// SPDX-License-Identifier: Apache-2.0
// The profile of `bench` as a table and as JSON.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "framework/autograd/profile.h"
#include "framework/kernels/peak.h"

namespace tapeformer::tools {

struct ProfileReport {
  const Profile& profile;
  kernels::Peak peak;
  int threads = 1;
  int64_t steps = 1;        // whose sums the profile holds
  double step_seconds = 0;  // wall time of all of them
};

std::string profile_text(const ProfileReport&);
nlohmann::ordered_json profile_json(const ProfileReport&);

}  // namespace tapeformer::tools
