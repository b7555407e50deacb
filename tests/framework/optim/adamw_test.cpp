// SPDX-License-Identifier: Apache-2.0
// AdamW against its published formula written plainly in double.
#include <cmath>

#include "tests/framework/optim/optim_fixture.h"

using namespace tapeformer;
using namespace tapeformer::optim_test;

namespace {

double rate(int64_t update) { return 0.02 / static_cast<double>(update); }

Formula adamw(double beta1, double beta2, double epsilon, double decay, bool decay_all) {
  return [=](int64_t t, int rank, double g, double& p, std::vector<double>& s) {
    if (decay_all || rank >= 2) p *= 1 - rate(t) * decay;
    s[0] = beta1 * s[0] + (1 - beta1) * g;
    s[1] = beta2 * s[1] + (1 - beta2) * g * g;
    const double m = s[0] / (1 - std::pow(beta1, t)), v = s[1] / (1 - std::pow(beta2, t));
    p -= rate(t) * m / (std::sqrt(v) + epsilon);
  };
}

optim::OptimizerSettings settings() {
  optim::OptimizerSettings s;
  s.type = optim::OptimizerType::adamw;
  s.beta1 = 0.85;
  s.beta2 = 0.98;
  s.epsilon = 1e-5;
  s.weight_decay = 0.3;
  return s;
}

}  // namespace

TEST_CASE("adamw follows its formula over ten updates", "[adamw]") {
  check_on_devices([] { return optim::make_optimizer(settings()); }, 1, 0, rate, adamw(0.85, 0.98, 1e-5, 0.3, false));
}

TEST_CASE("adamw decays vectors too when it is told to", "[adamw]") {
  optim::OptimizerSettings s = settings();
  s.decay_all = true;
  check_on_devices([&] { return optim::make_optimizer(s); }, 1, 0, rate, adamw(0.85, 0.98, 1e-5, 0.3, true));
}

TEST_CASE("adamw scales the gradient first and then limits each element", "[adamw]") {
  check_on_devices([] { return optim::make_optimizer(settings()); }, 0.25, 0.6, rate, adamw(0.85, 0.98, 1e-5, 0.3, false));
}

TEST_CASE("the first update of adamw moves by the rate against the gradient's sign", "[adamw]") {
  optim::OptimizerSettings s;
  s.epsilon = 1e-12;
  Parameter p{"x", Tensor::of<double>({1, 1, 1}), Tensor::of<double>({40, -0.01, 0}), true};
  optim::make_optimizer(s)->step({}, 1, 0.125, 1, 0, {&p});
  CHECK(std::abs(p.value.span<double>()[0] - 0.875) < 1e-9);
  CHECK(std::abs(p.value.span<double>()[1] - 1.125) < 1e-9);
  CHECK(p.value.span<double>()[2] == 1);
}
