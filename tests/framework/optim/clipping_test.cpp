// SPDX-License-Identifier: Apache-2.0
// Gradient norms, clipping by norm of the divided gradient, and the names of bad gradients.
#include "framework/optim/clipping.h"

#include <limits>

#include "tests/framework/optim/optim_fixture.h"

using namespace tapeformer;
using namespace tapeformer::optim_test;

TEST_CASE("the norm is the root of all squares over trainable parameters", "[clipping]") {
  std::vector<Parameter> parameters = some_parameters<double>();
  parameters.push_back(parameter<double>("frozen", {4}));
  parameters.back().trainable = false;
  parameters.push_back(parameter<double>("unused", {4}));
  parameters.back().gradient = Tensor();
  double sum = 0;
  for (size_t i = 0; i < 3; ++i)
    for (const double g : parameters[i].gradient.span<double>()) sum += g * g;
  CHECK_THAT(optim::gradient_norm({}, pointers(parameters)), Catch::Matchers::WithinRel(std::sqrt(sum), 1e-13));
  CHECK(optim::gradient_norm({}, {}) == 0);
}

TEST_CASE("the norm on the cpu is near and has the same bytes for any number of threads", "[clipping]") {
  std::vector<Parameter> parameters = some_parameters<float>();
  const double expected = optim::gradient_norm({}, pointers(parameters));
  ThreadPool one(1);
  const double first = optim::gradient_norm({Device::cpu, &one}, pointers(parameters));
  CHECK_THAT(first, Catch::Matchers::WithinRel(expected, 1e-6));
  for (const int threads : {2, 3, 8}) {
    ThreadPool pool(threads);
    CHECK(optim::gradient_norm({Device::cpu, &pool}, pointers(parameters)) == first);
  }
}

TEST_CASE("large float gradients do not overflow the norm", "[clipping]") {
  Parameter p{"x", Tensor::of<float>({1, 1}), Tensor::of<float>({3e30f, 4e30f}), true};
  ThreadPool pool(1);
  CHECK_THAT(optim::gradient_norm({}, {&p}), Catch::Matchers::WithinRel(5e30, 1e-6));
  CHECK_THAT(optim::gradient_norm({Device::cpu, &pool}, {&p}), Catch::Matchers::WithinRel(5e30, 1e-6));
}

TEST_CASE("the scale divides by the count and limits the norm of the divided gradient", "[clipping]") {
  struct Row {
    double summed, count, clip, norm, scale;
  };
  const std::vector<Row> table{
      {12, 4, 0, 3, 0.25},     // off
      {12, 4, 5, 3, 0.25},     // below the limit: untouched, though the sum is above it
      {12, 4, 3, 3, 0.25},     // at the limit
      {12, 4, 1.5, 3, 0.125},  // halved
      {0, 4, 1, 0, 0.25},      // nothing to clip
      {0, 0, 1, 0, 0},         // every target ignored
  };
  for (const Row& r : table) {
    INFO(r.summed << " / " << r.count << " clip " << r.clip);
    const optim::GradientScale g = optim::gradient_scale(r.summed, r.count, r.clip);
    CHECK(g.norm == r.norm);
    CHECK(std::abs(g.scale - r.scale) < 1e-15);
  }
}

TEST_CASE("a clipped update is one with the limited gradient, whatever the gradient was summed over", "[clipping]") {
  optim::OptimizerSettings s;
  s.type = optim::OptimizerType::sgd;
  s.momentum = 0;
  std::vector<Parameter> parameters = some_parameters<double>();
  std::vector<Tensor> before;
  for (const Parameter& p : parameters) before.push_back(p.value.clone());
  const optim::GradientScale g = optim::gradient_scale(optim::gradient_norm({}, pointers(parameters)), 8, 0.5);
  optim::make_optimizer(s)->step({}, 1, 1, g.scale, 0, pointers(parameters));
  double moved = 0;
  for (size_t i = 0; i < before.size(); ++i)
    for (int64_t k = 0; k < before[i].count(); ++k) {
      const auto at = static_cast<size_t>(k);
      moved += std::pow(before[i].span<double>()[at] - parameters[i].value.span<double>()[at], 2);
    }
  CHECK_THAT(std::sqrt(moved), Catch::Matchers::WithinRel(0.5, 1e-12));
}

TEST_CASE("bad gradients make the norm not finite and are named", "[clipping]") {
  ThreadPool pool(2);
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()})
    for (const size_t at : {0u, 1u, 2u}) {
      std::vector<Parameter> parameters = some_parameters<float>();
      const std::span<float> g = parameters[at].gradient.span<float>();
      g[g.size() - 1] = static_cast<float>(bad);
      CHECK(optim::nonfinite_gradients(pointers(parameters)) == std::vector<std::string>{parameters[at].name});
      CHECK(!std::isfinite(optim::gradient_norm({}, pointers(parameters))));
      CHECK(!std::isfinite(optim::gradient_norm({Device::cpu, &pool}, pointers(parameters))));
    }
  std::vector<Parameter> good = some_parameters<double>();
  CHECK(optim::nonfinite_gradients(pointers(good)).empty());
}
