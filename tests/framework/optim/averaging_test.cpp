// SPDX-License-Identifier: Apache-2.0
// Averaged weights against the recurrence in double, where they begin, how they are exchanged and resumed.
#include "framework/optim/averaging.h"

#include <stdexcept>

#include "tests/framework/optim/optim_fixture.h"

using namespace tapeformer;
using namespace tapeformer::optim_test;

namespace {

template <class T>
void set_values(std::vector<Parameter>& parameters, int64_t update) {
  for (Parameter& p : parameters) p.value.copy_from(gaussian<T>(p.name, p.value.shape(), static_cast<uint32_t>(update)));
}

template <class T>
void check_recurrence(const Execution& on, int64_t from, double tolerance) {
  optim::Averaging averaging({0.7, from});
  std::vector<Parameter> parameters = some_parameters<T>();
  std::vector<std::vector<double>> expected(parameters.size());
  for (int64_t update = 1; update <= 8; ++update) {
    set_values<T>(parameters, update);
    averaging.update(on, update, pointers(parameters));
    for (size_t p = 0; p < parameters.size() && update > from; ++p) {
      const std::vector<double> value = doubles<T>(parameters[p].value);
      if (update == from + 1) expected[p] = value;
      else
        for (size_t i = 0; i < value.size(); ++i) expected[p][i] = 0.7 * expected[p][i] + (1 - 0.7) * value[i];
    }
  }
  size_t p = 0;
  double worst = 0;
  averaging.visit([&](const std::string& name, Tensor& t) {
    CHECK(name == parameters[p].name);
    const std::vector<double> got = doubles<T>(t);
    for (size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - expected[p][i]));
    ++p;
  });
  CHECK(p == parameters.size());
  CHECK(worst < tolerance);
}

}  // namespace

TEST_CASE("the average follows its recurrence from the update where it begins", "[averaging]") {
  ThreadPool pool(2);
  for (const int64_t from : {0, 3}) {
    check_recurrence<double>({}, from, 1e-14);
    check_recurrence<float>({}, from, 1e-6);
    check_recurrence<float>({Device::cpu, &pool}, from, 1e-6);
  }
}

TEST_CASE("nothing is kept before the average begins or where it is off", "[averaging]") {
  std::vector<Parameter> parameters = some_parameters<float>();
  for (const optim::AveragingSettings& s : {optim::AveragingSettings{0.9, 5}, optim::AveragingSettings{0, 0}}) {
    optim::Averaging averaging(s);
    averaging.update({}, 5, pointers(parameters));
    CHECK(!averaging.started());
    int kept = 0;
    averaging.visit([&](const std::string&, Tensor&) { ++kept; });
    CHECK(kept == 0);
    CHECK_THROWS_AS(averaging.swap(pointers(parameters)), Error);
  }
}

TEST_CASE("averages that were cleared begin anew with the next update", "[averaging]") {
  optim::Averaging averaging({0.5, 0});
  std::vector<Parameter> parameters{parameter<double>("a", {2})};
  for (int64_t update = 1; update <= 2; ++update) {
    set_values<double>(parameters, update);
    averaging.update({}, update, pointers(parameters));
  }
  averaging.clear();
  CHECK(!averaging.started());
  set_values<double>(parameters, 3);
  averaging.update({}, 3, pointers(parameters));
  int averages = 0;
  averaging.visit([&](const std::string&, Tensor& t) {
    CHECK(doubles<double>(t) == doubles<double>(parameters[0].value));
    ++averages;
  });
  CHECK(averages == 1);
}

TEST_CASE("averaged weights stand in the parameters for a while and leave them as they were, also after a throw", "[averaging]") {
  optim::Averaging averaging({0.5, 0});
  std::vector<Parameter> parameters{parameter<double>("a", {2, 2}), parameter<double>("frozen", {2})};
  parameters[1].trainable = false;
  parameters[0].value.copy_from(Tensor::of<double>({1, 2, 3, 4}).reshaped({2, 2}));
  averaging.update({}, 1, pointers(parameters));
  parameters[0].value.copy_from(Tensor::of<double>({5, 6, 7, 8}).reshaped({2, 2}));
  averaging.update({}, 2, pointers(parameters));
  const Tensor frozen = parameters[1].value.clone();
  const Tensor alias = parameters[0].value;  // whoever shares the tensor sees the exchange
  try {
    const optim::AveragedWeights averaged(averaging, pointers(parameters));
    CHECK(doubles<double>(alias) == std::vector<double>{3, 4, 5, 6});
    CHECK(same_bytes(parameters[1].value, frozen));
    throw std::runtime_error("an evaluation that fails");
  } catch (const std::runtime_error&) {
  }
  CHECK(doubles<double>(alias) == std::vector<double>{5, 6, 7, 8});
  averaging.visit([](const std::string& name, Tensor& t) {
    CHECK(name == "a");
    CHECK(doubles<double>(t) == std::vector<double>{3, 4, 5, 6});
  });
}

TEST_CASE("averages written into a new one continue to the byte; a missing one is refused", "[averaging]") {
  optim::Averaging whole({0.8, 1});
  std::vector<Parameter> parameters = some_parameters<float>();
  std::vector<Tensor> saved, last, resumed_last;
  for (int64_t update = 1; update <= 4; ++update) {
    set_values<float>(parameters, update);
    whole.update({}, update, pointers(parameters));
    if (update == 3) whole.visit([&](const std::string&, Tensor& t) { saved.push_back(t.clone()); });
  }
  whole.visit([&](const std::string&, Tensor& t) { last.push_back(t); });
  optim::Averaging resumed({0.8, 1}), without({0.8, 1});
  resumed.prepare(pointers(parameters));
  size_t i = 0;
  resumed.visit([&](const std::string&, Tensor& t) { t.copy_from(saved.at(i++)); });
  resumed.update({}, 4, pointers(parameters));
  resumed.visit([&](const std::string&, Tensor& t) { resumed_last.push_back(t); });
  REQUIRE(resumed_last.size() == last.size());
  for (size_t k = 0; k < last.size(); ++k) CHECK(same_bytes(last[k], resumed_last[k]));
  without.update({}, 4, pointers(parameters));  // updates 2 and 3 were skipped: the first one done makes the copy
  CHECK(without.started());
}
