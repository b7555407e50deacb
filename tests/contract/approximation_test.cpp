// SPDX-License-Identifier: Apache-2.0
// Row N-11 of the fault tables: what an approximation of full attention loses falls with its budget, and is nothing where theory says so.
#include <cmath>

#include "tests/support/catch.h"
#include "tests/support/devices.h"
#include "tests/support/matrix.h"
#include "tests/support/model_fixture.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

// The overrides that give a variant a budget from 1 (least) to the number of rows (all); and those that keep its form.
struct Family {
  std::string name;
  std::vector<std::string> (*with_budget)(int64_t);
};

const std::vector<Family> families{
    {"band on both sides",
     [](int64_t n) {
       return std::vector<std::string>{"model.attention.type=local", fmt::format("model.attention.local.left={}", n),
                                       fmt::format("model.attention.local.right={}", n)};
     }},
    {"blocks and their neighbours",
     [](int64_t n) {
       return std::vector<std::string>{"model.attention.type=local", "model.attention.local.form=blocked",
                                       fmt::format("model.attention.local.block={}", n)};
     }},
};

Matrix outputs(const std::vector<std::string>& overrides, const TestDevice& device, const data::Batch& batch) {
  std::vector<std::string> all = overrides;
  all.insert(all.end(), {"model.dim=16", "model.attention.heads=2"});
  const auto model = models::make_model({.seed = 3, .dtype = device.dtype}, model_settings(all), token_description());
  Context context{.on = device.on, .mode = Mode::evaluate, .dtype = device.dtype};
  return Matrix(model->forward(context, batch).value);
}

double mean_difference(const Matrix& a, const Matrix& b) {
  double sum = 0;
  for (size_t i = 0; i < a.values.size(); ++i) sum += std::abs(a.values[i] - b.values[i]);
  return sum / static_cast<double>(a.values.size());
}

}  // namespace

TEST_CASE("N-11: local attention comes nearer to full attention as it sees more, and is it when it sees all") {
  const data::Batch batch = token_batch(token_description(), {64, 61, 64, 50, 64, 57, 64, 64, 33, 64, 64, 64});
  for (const TestDevice& device : test_devices()) {
    const Matrix full = outputs({"model.attention.type=full"}, device, batch);
    for (const Family& family : families) {
      INFO(family.name << " on " << device.name);
      std::vector<double> errors;
      for (int64_t budget = 1; budget <= 64; budget *= 4) errors.push_back(mean_difference(outputs(family.with_budget(budget), device, batch), full));
      CAPTURE(errors);
      CHECK(errors.front() > 1e-3);
      for (size_t i = 1; i < errors.size(); ++i) CHECK(errors[i] <= 1.1 * errors[i - 1]);
      CHECK(errors.back() <= 1e-5);
    }
  }
}
