// SPDX-License-Identifier: Apache-2.0
// Parameters with uneven values for the tests of optimisers, the devices they run on, and a plain walk of ten updates in double.
#pragma once
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "framework/core/parallel.h"
#include "framework/core/random.h"
#include "framework/optim/optimizer.h"
#include "tests/support/catch.h"

namespace tapeformer::optim_test {

template <class T>
Tensor gaussian(const std::string& name, Shape shape, uint32_t step, double scale = 1) {
  Tensor t(dtype_of<T>(), shape);
  const Draw draw{random_key(5, "test", name), no_sample, step};
  uint32_t i = 0;
  for (T& x : t.span<T>()) x = static_cast<T>(scale * draw.gaussian(i++, 0));
  return t;
}

template <class T>
Parameter parameter(const std::string& name, Shape shape) {
  return {name, gaussian<T>(name + ".value", shape, 0), gaussian<T>(name + ".gradient", shape, 1), true};
}

// A weight of more than one piece, one of few elements, a bias.
template <class T>
std::vector<Parameter> some_parameters() {
  return {parameter<T>("large.weight", {180, 190}), parameter<T>("small.weight", {3, 5}), parameter<T>("small.bias", {7})};
}

inline std::vector<Parameter*> pointers(std::vector<Parameter>& parameters) {
  std::vector<Parameter*> all;
  for (Parameter& p : parameters) all.push_back(&p);
  return all;
}

template <class T>
std::vector<double> doubles(const Tensor& t) {
  return {t.span<T>().begin(), t.span<T>().end()};
}

inline bool same_bytes(const Tensor& a, const Tensor& b) { return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0; }

// One update of one element in double: (update, rank of the parameter, gradient, value, slots).
using Formula = std::function<void(int64_t, int, double, double&, std::vector<double>&)>;

// Ten updates with changing rates and gradients must follow `formula`, elements and slots alike.
template <class T>
void check_ten_updates(const Execution& on, optim::Optimizer& optimizer, double gradient_scale, double clip_value,
                       const std::function<double(int64_t)>& rate, const Formula& formula, double tolerance) {
  std::vector<Parameter> parameters = some_parameters<T>();
  const size_t slots = optimizer.slots().size();
  std::vector<std::vector<double>> values;
  std::vector<std::vector<std::vector<double>>> state;
  for (const Parameter& p : parameters) {
    values.push_back(doubles<T>(p.value));
    state.emplace_back(values.back().size(), std::vector<double>(slots));
  }
  for (int64_t update = 1; update <= 10; ++update) {
    for (size_t p = 0; p < parameters.size(); ++p) {
      Parameter& q = parameters[p];
      q.gradient = gaussian<T>(q.name + ".gradient", q.value.shape(), static_cast<uint32_t>(update), 3);
      const std::vector<double> g = doubles<T>(q.gradient);
      for (size_t i = 0; i < g.size(); ++i) {
        double scaled = g[i] * gradient_scale;
        if (clip_value > 0) scaled = std::min(std::max(scaled, -clip_value), clip_value);
        formula(update, q.value.shape().rank(), scaled, values[p][i], state[p][i]);
      }
    }
    optimizer.step(on, update, rate(update), gradient_scale, clip_value, pointers(parameters));
  }
  double worst = 0;
  for (size_t p = 0; p < parameters.size(); ++p) {
    const std::vector<double> got = doubles<T>(parameters[p].value);
    for (size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - values[p][i]) / (1 + std::abs(values[p][i])));
  }
  size_t p = 0, s = 0;
  optimizer.visit([&](const std::string&, const std::string&, Tensor& slot) {
    const std::vector<double> got = doubles<T>(slot);
    for (size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - state[p][i][s]) / (1 + std::abs(state[p][i][s])));
    if (++s == slots) s = 0, ++p;
  });
  INFO("device " << name_of(on.device) << ", float" << 8 * sizeof(T));
  CHECK(worst < tolerance);
  CHECK((slots == 0 || p == parameters.size()));
}

// The same on each device and element type there is; a new optimiser each time.
inline void check_on_devices(const std::function<std::unique_ptr<optim::Optimizer>()>& make, double gradient_scale, double clip_value,
                             const std::function<double(int64_t)>& rate, const Formula& formula) {
  ThreadPool pool(2);
  check_ten_updates<double>({Device::reference, nullptr}, *make(), gradient_scale, clip_value, rate, formula, 1e-13);
  check_ten_updates<float>({Device::reference, nullptr}, *make(), gradient_scale, clip_value, rate, formula, 2e-6);
  check_ten_updates<float>({Device::cpu, &pool}, *make(), gradient_scale, clip_value, rate, formula, 2e-6);
}

}  // namespace tapeformer::optim_test
