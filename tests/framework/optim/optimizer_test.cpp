// SPDX-License-Identifier: Apache-2.0
// What all optimisers share: which parameters move, slots by name, resuming from slots, the number of threads, misuse.
#include "framework/optim/optimizer.h"

#include "tests/framework/optim/optim_fixture.h"

using namespace tapeformer;
using namespace tapeformer::optim_test;

namespace {

const std::vector<optim::OptimizerType> every_type{
#define OPTIMIZER(name) optim::OptimizerType::name,
#include "framework/optim/optimizers.def"
#undef OPTIMIZER
};

std::unique_ptr<optim::Optimizer> make(optim::OptimizerType type) {
  optim::OptimizerSettings s;
  s.type = type;
  s.weight_decay = 0.1;
  return optim::make_optimizer(s);
}

void set_gradients(std::vector<Parameter>& parameters, int64_t update) {
  for (Parameter& p : parameters) p.gradient = gaussian<float>(p.name + ".gradient", p.value.shape(), static_cast<uint32_t>(update));
}

}  // namespace

TEST_CASE("frozen parameters and those without a gradient stay", "[optimizer]") {
  for (const auto type : every_type) {
    const auto optimizer = make(type);
    std::vector<Parameter> parameters = some_parameters<float>();
    parameters[0].trainable = false;
    parameters[1].gradient = Tensor();
    const Tensor frozen = parameters[0].value.clone(), unused = parameters[1].value.clone(), moved = parameters[2].value.clone();
    optimizer->step({}, 1, 0.1, 1, 0, pointers(parameters));
    CHECK(same_bytes(parameters[0].value, frozen));
    CHECK(same_bytes(parameters[1].value, unused));
    CHECK(!same_bytes(parameters[2].value, moved));
  }
}

TEST_CASE("slots come in the order of the parameters, zero before the first step", "[optimizer]") {
  const auto optimizer = make(optim::OptimizerType::adamw);
  std::vector<Parameter> parameters = some_parameters<double>();
  optimizer->prepare(pointers(parameters));
  std::vector<std::string> names;
  double sum = 0;
  optimizer->visit([&](const std::string& slot, const std::string& parameter, Tensor& t) {
    names.push_back(slot + "/" + parameter);
    CHECK(t.dtype() == Dtype::f64);
    for (const double x : t.span<double>()) sum += std::abs(x);
  });
  CHECK(names == std::vector<std::string>{"exp_avg/large.weight", "exp_avg_sq/large.weight", "exp_avg/small.weight",
                                          "exp_avg_sq/small.weight", "exp_avg/small.bias", "exp_avg_sq/small.bias"});
  CHECK(sum == 0);
}

TEST_CASE("slots written into a new optimiser continue to the byte", "[optimizer]") {
  for (const auto type : every_type) {
    auto optimizer = make(type);
    std::vector<Parameter> straight = some_parameters<float>(), resumed = some_parameters<float>();
    const auto whole = make(type);
    for (int64_t update = 1; update <= 6; ++update) {
      set_gradients(straight, update);
      whole->step({}, update, 0.1, 1, 0, pointers(straight));
      if (update == 4) {
        std::vector<Tensor> saved;
        optimizer->visit([&](const std::string&, const std::string&, Tensor& t) { saved.push_back(t.clone()); });
        optimizer = make(type);
        optimizer->prepare(pointers(resumed));
        size_t i = 0;
        optimizer->visit([&](const std::string&, const std::string&, Tensor& t) { t.copy_from(saved.at(i++)); });
        CHECK(i == saved.size());
      }
      set_gradients(resumed, update);
      optimizer->step({}, update, 0.1, 1, 0, pointers(resumed));
    }
    for (size_t i = 0; i < straight.size(); ++i) CHECK(same_bytes(straight[i].value, resumed[i].value));
  }
}

TEST_CASE("an update gives the same bytes for any number of threads", "[optimizer]") {
  for (const auto type : every_type) {
    std::vector<Tensor> first;
    for (const int threads : {1, 2, 3, 8}) {
      ThreadPool pool(threads);
      const auto optimizer = make(type);
      std::vector<Parameter> parameters = some_parameters<float>();
      for (int64_t update = 1; update <= 3; ++update) {
        set_gradients(parameters, update);
        optimizer->step({Device::cpu, &pool}, update, 0.1, 0.5, 0, pointers(parameters));
      }
      for (size_t i = 0; i < parameters.size(); ++i) {
        if (threads == 1) first.push_back(parameters[i].value);
        else CHECK(same_bytes(first[i], parameters[i].value));
      }
    }
  }
}

TEST_CASE("misuse of an optimiser is refused", "[optimizer]") {
  const auto optimizer = make(optim::OptimizerType::adamw);
  Parameter p = parameter<float>("w", {2, 3});
  CHECK_THROWS_AS(optimizer->step({}, 0, 0.1, 1, 0, {&p}), Error);
  optimizer->step({}, 1, 0.1, 1, 0, {&p});
  Parameter other_shape = parameter<float>("w", {3, 2}), other_dtype = parameter<double>("w", {2, 3});
  CHECK_THROWS_AS(optimizer->step({}, 2, 0.1, 1, 0, {&other_shape}), Error);
  CHECK_THROWS_AS(optimizer->step({}, 2, 0.1, 1, 0, {&other_dtype}), Error);
  p.gradient = gaussian<float>("g", {6}, 1);
  CHECK_THROWS_AS(optimizer->step({}, 2, 0.1, 1, 0, {&p}), Error);
}
