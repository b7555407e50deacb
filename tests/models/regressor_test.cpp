// SPDX-License-Identifier: Apache-2.0
// The regressor: one value a target and the sum of squared errors over targets.
#include <cmath>

#include "tests/support/catch.h"
#include "tests/support/devices.h"
#include "tests/support/matrix.h"
#include "tests/support/model_fixture.h"

using namespace tapeformer;
using namespace tapeformer::test;

TEST_CASE("a regressor gives K values and their mean squared error", "[regressor]") {
  const data::Description d = token_description(data::Task::regression);
  const TestDevice& device = test_devices().front();
  const auto model = models::make_model({.seed = 1, .dtype = Dtype::f64}, model_settings({"model.pooling=max"}), d);
  const data::Batch batch = token_batch(d, {3, 4, 5});
  Context context{.on = device.on, .dtype = Dtype::f64};
  const Variable output = model->forward(context, batch);
  REQUIRE(output.value.shape() == Shape{3, 2});
  const ops::Loss loss = model->loss(context, output, batch);
  const Matrix y(output.value), t(batch.targets);
  double expected = 0;
  for (size_t i = 0; i < y.values.size(); ++i) expected += (y.values[i] - t.values[i]) * (y.values[i] - t.values[i]) / 2;
  CHECK(std::abs(Matrix(loss.sum.value).values[0] - expected) < 1e-12);
  CHECK(loss.count == 3);
}
