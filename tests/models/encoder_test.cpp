// SPDX-License-Identifier: Apache-2.0
// Learned rows in front of every sequence: one parameter for all layers, seen by them all, and gone before anything reads the output.
#include "models/encoder.h"

#include <cstring>

#include "tests/support/catch.h"
#include "tests/support/devices.h"
#include "tests/support/matrix.h"
#include "tests/support/model_fixture.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

models::ModelSettings with_extra_rows(int count, const std::vector<std::string>& overrides = {}) {
  models::ModelSettings s = model_settings(overrides);
  s.attention.extra_rows = {count, 0.5};
  return s;
}

Tensor run(models::Encoder& encoder, const TestDevice& device, const data::Batch& batch, Mode mode = Mode::evaluate) {
  Context context{.on = device.on, .mode = mode, .seed = 2, .step = 1, .dtype = device.dtype};
  return encoder.forward(context, batch).x.value;
}

}  // namespace

TEST_CASE("extra rows are one parameter, change the output and are not part of it", "[encoder]") {
  const data::Description d = token_description();
  const data::Batch batch = token_batch(d, {3, 0, 9, 65});
  for (const TestDevice& device : test_devices()) {
    models::Encoder without({.seed = 1, .dtype = device.dtype}, with_extra_rows(0), d);
    models::Encoder with({.seed = 1, .dtype = device.dtype}, with_extra_rows(3), d);
    nn::ModelState state;
    with.visit(state);
    REQUIRE(state.parameters[2]->name == "encoder.extra_rows");
    CHECK(state.parameters[2]->value.shape() == Shape{3, 8});
    const Matrix a(run(without, device, batch)), b(run(with, device, batch));
    CHECK(b.rows == 77);
    CHECK(relative_error(a, b) > 1e-4);
    // With a window that they are not in, the same rows get the same values.
    const auto narrow = [&](int count) {
      return with_extra_rows(count, {"model.attention.type=local", "model.attention.local.left=0", "model.attention.local.right=5"});
    };
    models::Encoder alone({.seed = 1, .dtype = device.dtype}, narrow(0), d), beside({.seed = 1, .dtype = device.dtype}, narrow(3), d);
    CHECK(relative_error(Matrix(run(beside, device, batch)), Matrix(run(alone, device, batch))) <= 1e-5);
  }
}

TEST_CASE("extra rows count in BatchNorm's statistics and in the cost", "[encoder]") {
  const data::Description d = token_description();
  const TestDevice& device = test_devices().front();
  const auto mean_of = [&](int extra) {
    models::Encoder encoder({.seed = 1, .dtype = Dtype::f64}, with_extra_rows(extra, {"model.norm.type=batch_norm"}), d);
    run(encoder, device, token_batch(d, {3, 9}), Mode::train);
    nn::ModelState state;
    encoder.visit(state);
    return Matrix(state.buffers[0]->value).values;
  };
  CHECK(mean_of(0) != mean_of(3));
  const auto flops = [&](int extra, int32_t length) {
    return models::Encoder({.seed = 1}, with_extra_rows(extra), d).cost({length})[1].forward_flops;
  };
  CHECK(flops(3, 7) == flops(0, 10));
}

TEST_CASE("the cost counts the projections a layer has", "[encoder]") {
  const auto flops = [](const char* type) {
    const std::string word = fmt::format("model.attention.type={}", type);
    return models::Encoder({.seed = 1}, model_settings({word}), token_description()).cost({10})[1].forward_flops;
  };
  CHECK(flops("full") == 2 * 10 * (4 * 8 * 8 + 2 * 8 * 12) + 4.0 * 100 * 8);
  CHECK(flops("linear") == 2 * 10 * (4 * 8 * 8 + 2 * 8 * 12) + 4.0 * 10 * 4 * 4 * 2);
  CHECK(flops("fnet") < 2 * 10 * (4 * 8 * 8 + 2 * 8 * 12));
}

TEST_CASE("gradients with extra rows agree with central differences", "[encoder]") {
  const data::Description d = token_description(data::Task::tagging);
  const TestDevice& device = test_devices().front();
  const data::Batch batch = token_batch(d, {3, 5});
  for (const char* norm : {"layer_norm", "batch_norm"}) {
    const auto model =
        models::make_model({.seed = 1, .dtype = Dtype::f64}, with_extra_rows(2, {std::string("model.norm.type=") + norm}), d);
    const auto loss = [&](Tape* tape) {
      Context context{.on = device.on, .tape = tape, .mode = Mode::train, .seed = 2, .step = 1, .dtype = Dtype::f64};
      return model->loss(context, model->forward(context, batch), batch).sum;
    };
    Tape tape(device.on);
    tape.backward(loss(&tape));
    nn::ModelState state;
    model->visit(state);
    for (const Parameter* p : state.parameters) {
      const int64_t i = p->value.count() / 3;
      double& x = p->value.data<double>()[i];
      const double held = x, step = 1e-6;
      x = held + step;
      const double up = Matrix(loss(nullptr).value).values[0];
      x = held - step;
      const double down = Matrix(loss(nullptr).value).values[0];
      x = held;
      INFO(norm << " " << p->name);
      CHECK(std::abs((up - down) / (2 * step) - p->gradient.data<double>()[i]) <= 2e-6);
    }
  }
}
