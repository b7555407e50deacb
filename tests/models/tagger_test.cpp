// SPDX-License-Identifier: Apache-2.0
// The tagger: one row of logits a row of the batch; ignored rows count for nothing.
#include "tests/support/catch.h"
#include "tests/support/devices.h"
#include "tests/support/model_fixture.h"

using namespace tapeformer;
using namespace tapeformer::test;

TEST_CASE("a tagger gives logits for every row and counts the tagged ones", "[tagger]") {
  const data::Description d = token_description(data::Task::tagging);
  const TestDevice& device = test_devices().front();
  const auto model = models::make_model({.seed = 1, .dtype = Dtype::f64}, model_settings({}), d);
  const data::Batch batch = token_batch(d, {3, 8, 5});
  Context context{.on = device.on, .dtype = Dtype::f64};
  const Variable output = model->forward(context, batch);
  CHECK(output.value.shape() == Shape{16, 3});
  CHECK(model->loss(context, output, batch).count == 3 + 6 + 4);
}

TEST_CASE("a sample's weight is that of each of its rows", "[tagger]") {
  const data::Description d = token_description(data::Task::tagging);
  const auto model = models::make_model({.seed = 1, .dtype = Dtype::f64}, model_settings({}), d);
  Context context{.on = test_devices().front().on, .dtype = Dtype::f64};
  const auto loss = [&](const data::Batch& batch) {
    const ops::Loss l = model->loss(context, model->forward(context, batch), batch);
    CHECK(l.count == model->target_count(batch));
    return std::pair(l.sum.value.data<double>()[0], l.count);
  };
  data::Batch batch = token_batch(d, {3, 8, 5});
  const auto alone = [&](float first, float second, float third) {
    batch.weights = Tensor::of<float>({first, second, third});
    return loss(batch);
  };
  const auto [sum, count] = alone(0.5f, 0, 3);
  const auto [first, first_count] = alone(1, 0, 0);
  const auto [third, third_count] = alone(0, 0, 1);
  CHECK(count == 0.5 * 3 + 3 * 4);
  CHECK(first_count == 3);
  CHECK(third_count == 4);
  CHECK_THAT(sum, Catch::Matchers::WithinRel(0.5 * first + 3 * third, 1e-13));
}
