// SPDX-License-Identifier: Apache-2.0
// The classifier: output shape, class weights, ignored label smoothing in evaluation, and BatchNorm folding.
#include <cmath>

#include "tests/support/catch.h"
#include "tests/support/devices.h"
#include "tests/support/matrix.h"
#include "tests/support/model_fixture.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

Tensor run(nn::Model& model, const TestDevice& device, const data::Batch& batch, Mode mode = Mode::evaluate) {
  Context context{.on = device.on, .mode = mode, .seed = 2, .step = 1, .dtype = device.dtype};
  return model.forward(context, batch).value;
}

}  // namespace

TEST_CASE("a classifier gives one row of logits for each sequence, empty ones included", "[classifier]") {
  const data::Description d = token_description();
  for (const TestDevice& device : test_devices()) {
    const auto model = models::make_model({.seed = 1, .dtype = device.dtype}, model_settings({"model.head.hidden=5"}), d);
    CHECK(run(*model, device, token_batch(d, {3, 0, 9})).shape() == Shape{3, 3});
  }
}

TEST_CASE("class weights weigh the loss and its count", "[classifier]") {
  data::Description d = token_description();
  d.class_weights = {2, 0.5, 1};
  const TestDevice& device = test_devices().front();
  const auto model = models::make_model({.seed = 1, .dtype = Dtype::f64}, model_settings({}), d);
  const data::Batch batch = token_batch(d, {3, 4, 5});
  Context context{.on = device.on, .dtype = Dtype::f64};
  const Variable output = model->forward(context, batch);
  const ops::Loss loss = model->loss(context, output, batch);
  const Matrix logits(output.value);
  double expected = 0;
  for (int r = 0; r < 3; ++r) {
    double sum = 0;
    for (int k = 0; k < 3; ++k) sum += std::exp(logits(r, k));
    expected += d.class_weights[static_cast<size_t>(r)] * (std::log(sum) - logits(r, r));
  }
  CHECK(std::abs(Matrix(loss.sum.value).values[0] - expected) < 1e-12);
  CHECK(loss.count == 3.5);
}

TEST_CASE("a folded BatchNorm model gives the same outputs with fewer layers", "[classifier]") {
  const data::Description d = token_description();
  for (const TestDevice& device : test_devices()) {
    const auto model = models::make_model({.seed = 1, .dtype = device.dtype}, model_settings({"model.norm.type=batch_norm"}), d);
    for (uint32_t i = 0; i < 20; ++i) run(*model, device, token_batch(d, {30, 40, 50}, 3 * i), Mode::train);
    const data::Batch batch = token_batch(d, {3, 4, 65}, 100);
    const Tensor before = run(*model, device, batch).clone();
    nn::ModelState unfolded, folded;
    model->visit(unfolded);
    CHECK(model->prepare_inference() == 4);
    model->visit(folded);
    CHECK(folded.layers.size() == unfolded.layers.size() - 4);
    const Matrix a(before), b(run(*model, device, batch));
    for (size_t i = 0; i < a.values.size(); ++i) CHECK(std::abs(a.values[i] - b.values[i]) <= 1e-5);
  }
}

TEST_CASE("frozen statistics keep their bytes when the data moves, trained ones follow it", "[classifier]") {
  data::Description d = token_description();
  d.vocab_size = 0;
  d.feature_names = {"a", "b"};
  for (const char* freeze : {"true", "false"}) {
    const TestDevice& device = test_devices().front();
    const auto model = models::make_model({.seed = 1, .dtype = Dtype::f64},
                                          model_settings({"model.norm.type=batch_norm", std::string("model.norm.freeze=") + freeze}), d);
    nn::ModelState state;
    model->visit(state);
    std::vector<Matrix> before;
    for (const nn::Buffer* b : state.buffers)
      if (b->value.dtype() == Dtype::f64) before.emplace_back(b->value);
    data::Batch batch;
    batch.packing = Packing({5, 6}, {0, 1});
    batch.values = Tensor(Dtype::f32, {11, 2});
    for (int i = 0; i < 22; ++i) batch.values.data<float>()[i] = 100 + static_cast<float>(i % 5);
    for (int i = 0; i < 5; ++i) run(*model, device, batch, Mode::train);
    size_t at = 0, changed = 0;
    for (const nn::Buffer* b : state.buffers)
      if (b->value.dtype() == Dtype::f64) changed += Matrix(b->value).values != before[at++].values;
    CHECK(at == 10);
    CHECK(changed == (std::string(freeze) == "true" ? 0u : at));
  }
}
