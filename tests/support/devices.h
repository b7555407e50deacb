// SPDX-License-Identifier: Apache-2.0
// The devices and element types on which a test of an op or a model runs.
#pragma once
#include <string>
#include <vector>

#include "framework/core/device.h"
#include "framework/core/dtype.h"

namespace tapeformer::test {

struct TestDevice {
  std::string name;
  Execution on;
  Dtype dtype;
  double tolerance;  // relative to the largest entry of an array
};

// The first one is the reference device in double, by which the others are judged.
const std::vector<TestDevice>& test_devices();

}  // namespace tapeformer::test
