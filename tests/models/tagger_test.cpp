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
