// SPDX-License-Identifier: Apache-2.0
// What an update does with an attention that has a loss and state of its own: the loss is a mean over all micro-batches and reaches the
// gradient, the state moves once an update. The variant is made for this test.
#include <cmath>

#include "framework/ops/columns.h"
#include "framework/train/evaluator.h"
#include "framework/train/update.h"
#include "models/attention/redraws.h"
#include "models/attention/variant.h"
#include "tests/support/catch.h"
#include "tests/support/devices.h"
#include "tests/support/matrix.h"
#include "tests/support/model_fixture.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

struct Settings {
  void read(config::Section&) {}
};

// Values pass unchanged; the mean of the squared projections is added to the loss.
class Penalised : public models::Heads {
 public:
  Penalised(const nn::Builder& build, const models::HeadSettings& settings, const Settings&) : Heads(settings), redraws_(build, settings) {}
  models::HeadOutput forward(Context& context, models::HeadInput& input) override {
    const int64_t width = settings().heads * settings().head_dim;
    const Tensor zeros = Tensor::zeros(context.dtype, input.projected.value.shape());
    return {ops::columns(context, input.projected, {{2 * width, width}}), ops::mean_squared_error(context, input.projected, zeros, {})};
  }
  bool has_auxiliary() const override { return true; }
  void visit(nn::Visitor& visitor) override { redraws_.visit(visitor); }
  void after_update(Context& context) override {
    REQUIRE(context.mode == Mode::train);
    REQUIRE(context.seed == 17);
    redraws_.advance(context);
  }
  models::AttentionCost cost(const std::vector<int32_t>&) const override { return {}; }

 private:
  models::Redraws redraws_;
};

const models::AttentionVariant penalised = models::variant<Penalised, Settings>("penalised", true);

models::ModelSettings settings(int extra_rows) {
  models::ModelSettings s = model_settings({"model.norm.type=layer_norm"});
  for (auto& layer : s.attention.layers) layer = {{&penalised, s.attention.heads, std::make_shared<Settings>(), "model.attention.type"}};
  s.attention.extra_rows.count = extra_rows;
  return s;
}

// Ragged sequences of random tokens, with weights of samples and classes.
class Sequences : public data::Dataset {
 public:
  explicit Sequences(data::Task task) : description_(token_description(task)) {
    if (task != data::Task::regression) description_.class_weights = {2, 0.5, 1.5};
  }
  const data::Description& description() const override { return description_; }
  int64_t size(data::Part) const override { return 7; }
  int32_t length(data::Part, int64_t index) const override { return static_cast<int32_t>(1 + index * index); }
  void read(data::Part part, int64_t index, data::Sample& out) const override {
    ++reads;
    out = {};
    for (int32_t i = 0; i < length(part, index); ++i) {
      out.tokens.push_back(static_cast<int32_t>((index + 3 * i) % 7));
      if (description_.task == data::Task::tagging) out.tags.push_back(i % 4 == 3 ? -100 : i % 3);
    }
    out.label = static_cast<int32_t>(index % 3);
    if (description_.task == data::Task::regression) out.target = {0.5f, static_cast<float>(index)};
    if (description_.task != data::Task::tagging) out.weight = 1 + static_cast<float>(index % 2);
  }
  std::vector<std::string> report() const override { return {}; }
  mutable int64_t reads = 0;

 private:
  data::Description description_;
};

struct Trained {
  std::vector<Matrix> parameters;
  train::UpdateResult last;
  int64_t redraws = 0;
};

Trained train_with(data::Task task, int64_t micro_batch_size, int extra_rows) {
  const Sequences dataset(task);
  train::TrainSettings s;
  s.seed = 17;
  s.dtype = Dtype::f64;
  s.micro_batch_size = micro_batch_size;
  const auto model = models::make_model({.seed = 17, .dtype = Dtype::f64}, settings(extra_rows), dataset.description());
  train::Updater updater(s, *model, dataset, test_devices().front().on);
  Trained out;
  for (int64_t step = 1; step <= 3; ++step) out.last = updater.update(step, 3, {0, 1, 2, 3, 4, 5, 6});
  CHECK(dataset.reads == 3 * 7);
  for (const Parameter* p : updater.model_state().parameters) out.parameters.emplace_back(p->value);
  for (const nn::Buffer* b : updater.model_state().buffers) out.redraws = b->value.data<int64_t>()[0];
  return out;
}

}  // namespace

TEST_CASE("micro-batches give the update of one batch, the attention's own loss included", "[update]") {
  for (const data::Task task : {data::Task::classification, data::Task::regression, data::Task::tagging})
    for (const int extra_rows : {0, 2}) {
      const Trained whole = train_with(task, 0, extra_rows);
      REQUIRE(whole.last.auxiliary.has_value());
      CHECK(*whole.last.auxiliary > 0);
      CHECK(whole.redraws == 3);
      for (const int64_t size : {1, 2, 5}) {
        const Trained parts = train_with(task, size, extra_rows);
        INFO("task " << static_cast<int>(task) << ", micro-batches of " << size << ", extra rows " << extra_rows);
        CHECK(parts.redraws == 3);
        CHECK(std::abs(parts.last.loss - whole.last.loss) <= 1e-9 * whole.last.loss);
        CHECK(std::abs(*parts.last.auxiliary - *whole.last.auxiliary) <= 1e-9 * *whole.last.auxiliary);
        for (size_t i = 0; i < whole.parameters.size(); ++i) CHECK(relative_error(parts.parameters[i], whole.parameters[i]) <= 1e-9);
      }
    }
}

TEST_CASE("an evaluation reads each sample once and hands it on with its outputs", "[update]") {
  const Sequences dataset(data::Task::classification);
  const auto model = models::make_model({.seed = 1, .dtype = Dtype::f64}, settings(0), dataset.description());
  std::vector<int32_t> labels;
  train::EvaluationSettings s{.on = test_devices().front().on, .dtype = Dtype::f64, .batch_size = 3};
  s.each_batch = [&](std::vector<data::Sample>& samples, const data::Batch& batch, const Tensor& outputs) {
    CHECK(static_cast<int64_t>(samples.size()) == outputs.shape()[0]);
    for (size_t i = 0; i < samples.size(); ++i) {
      CHECK(static_cast<int32_t>(samples[i].tokens.size()) == batch.packing.length(static_cast<int>(i)));
      labels.push_back(samples[i].label);
    }
  };
  CHECK(train::evaluate(*model, dataset, data::Part::valid, s)->samples == 7);
  CHECK(labels == std::vector<int32_t>{0, 1, 2, 0, 1, 2, 0});
  CHECK(dataset.reads == 7);
}

TEST_CASE("the loss is the targets' mean plus the attention's own, and its count is known beforehand", "[update]") {
  const TestDevice& device = test_devices().front();
  for (const data::Task task : {data::Task::classification, data::Task::regression, data::Task::tagging}) {
    const Sequences dataset(task);
    const data::Batch batch = data::read_batch(dataset, data::Part::train, {1, 3, 6});
    const auto loss_of = [&](const models::ModelSettings& s) {
      const auto model = models::make_model({.seed = 1, .dtype = Dtype::f64}, s, dataset.description());
      Context context{.on = device.on, .dtype = Dtype::f64};
      const ops::Loss loss = model->loss(context, model->forward(context, batch), batch);
      CHECK(std::abs(model->target_count(batch) - loss.count) <= 1e-12);
      CHECK(model->has_auxiliary());
      return loss;
    };
    const ops::Loss loss = loss_of(settings(0));
    double rows = 0;
    for (const double row : loss.per_row.span<double>()) rows += row;
    CHECK(loss.auxiliary > 0);
    CHECK(std::abs(Matrix(loss.sum.value).values[0] - rows - loss.auxiliary) <= 1e-12 * std::abs(rows));
  }
}
