// SPDX-License-Identifier: Apache-2.0
// Adam with its L2 penalty against the formula written plainly in double.
#include <cmath>

#include "tests/framework/optim/optim_fixture.h"

using namespace tapeformer;
using namespace tapeformer::optim_test;

namespace {

double rate(int64_t update) { return 0.01 * static_cast<double>(update); }

optim::OptimizerSettings settings(optim::OptimizerType type, double decay) {
  optim::OptimizerSettings s;
  s.type = type;
  s.beta1 = 0.7;
  s.beta2 = 0.95;
  s.epsilon = 1e-3;
  s.weight_decay = decay;
  return s;
}

Tensor after_two_updates(optim::OptimizerType type, double decay) {
  const auto optimizer = optim::make_optimizer(settings(type, decay));
  std::vector<Parameter> parameters = some_parameters<double>();
  for (int64_t update = 1; update <= 2; ++update) optimizer->step({}, update, 0.1, 1, 0, pointers(parameters));
  return parameters[1].value;
}

}  // namespace

TEST_CASE("adam follows its formula over ten updates", "[adam]") {
  const Formula adam = [](int64_t t, int rank, double g, double& p, std::vector<double>& s) {
    if (rank >= 2) g += 0.4 * p;
    s[0] = 0.7 * s[0] + 0.3 * g;
    s[1] = 0.95 * s[1] + (1 - 0.95) * g * g;
    const double m = s[0] / (1 - std::pow(0.7, t)), v = s[1] / (1 - std::pow(0.95, t));
    p -= rate(t) * m / (std::sqrt(v) + 1e-3);
  };
  const auto make = [] { return optim::make_optimizer(settings(optim::OptimizerType::adam, 0.4)); };
  check_on_devices(make, 1, 0, rate, adam);
  check_on_devices(make, 0.5, 0.9, rate, adam);
}

TEST_CASE("adam and adamw are the same without decay and differ with it", "[adam]") {
  CHECK(same_bytes(after_two_updates(optim::OptimizerType::adam, 0), after_two_updates(optim::OptimizerType::adamw, 0)));
  CHECK(!same_bytes(after_two_updates(optim::OptimizerType::adam, 0.1), after_two_updates(optim::OptimizerType::adamw, 0.1)));
}
