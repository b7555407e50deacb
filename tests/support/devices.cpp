// SPDX-License-Identifier: Apache-2.0
// The list of devices that tests run on.
#include "tests/support/devices.h"

#include "framework/core/parallel.h"

namespace tapeformer::test {

const std::vector<TestDevice>& test_devices() {
  static ThreadPool pool(2);
  static const std::vector<TestDevice> devices{
      {"reference float64", {Device::reference, nullptr}, Dtype::f64, 1e-11},
      {"reference float32", {Device::reference, nullptr}, Dtype::f32, 1e-5},
      {"cpu float32", {Device::cpu, &pool}, Dtype::f32, 2e-5},
  };
  return devices;
}

}  // namespace tapeformer::test
