// SPDX-License-Identifier: Apache-2.0
// Gradient descent, with and without momentum, against the formula written plainly in double.
#include "tests/framework/optim/optim_fixture.h"

using namespace tapeformer;
using namespace tapeformer::optim_test;

namespace {

double rate(int64_t update) { return 0.05 / static_cast<double>(update + 1); }

optim::OptimizerSettings settings(double momentum) {
  optim::OptimizerSettings s;
  s.type = optim::OptimizerType::sgd;
  s.momentum = momentum;
  s.weight_decay = 0.2;
  return s;
}

}  // namespace

TEST_CASE("sgd with momentum follows its formula over ten updates", "[sgd]") {
  const Formula sgd = [](int64_t t, int rank, double g, double& p, std::vector<double>& s) {
    if (rank >= 2) g += 0.2 * p;
    s[0] = 0.8 * s[0] + g;
    p -= rate(t) * s[0];
  };
  check_on_devices([] { return optim::make_optimizer(settings(0.8)); }, 1, 0, rate, sgd);
  check_on_devices([] { return optim::make_optimizer(settings(0.8)); }, 0.5, 0.7, rate, sgd);
}

TEST_CASE("sgd without momentum keeps nothing", "[sgd]") {
  CHECK(optim::make_optimizer(settings(0))->slots().empty());
  CHECK(optim::make_optimizer(settings(0.5))->slots() == std::vector<std::string>{"momentum"});
  const Formula sgd = [](int64_t t, int rank, double g, double& p, std::vector<double>&) {
    p -= rate(t) * (g + (rank >= 2 ? 0.2 * p : 0));
  };
  check_on_devices([] { return optim::make_optimizer(settings(0)); }, 1, 0, rate, sgd);
}
