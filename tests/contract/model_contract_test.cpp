// SPDX-License-Identifier: Apache-2.0
// What every model must keep with every attention variant and both norms: gradients, batch independence in evaluation and with frozen
// BatchNorm, micro-batches equal to one batch, the same bytes for any number of threads.
#include <cstring>

#include "framework/core/parallel.h"
#include "framework/nn/batch_norm.h"
#include "tests/support/catch.h"
#include "tests/support/devices.h"
#include "tests/support/matrix.h"
#include "tests/support/model_fixture.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

struct Case {
  std::string name, variant;
  std::vector<std::string> overrides;
  bool batch_norm = false;
};

// Every variant with both norms; the place of the norm is the block's affair, so one variant has all four.
std::vector<Case> cases() {
  std::vector<Case> out;
  for (const auto& v : models::attention_variants())
    for (const char* norm : {"layer_norm", "batch_norm"})
      for (const char* position : {"pre", "post"}) {
        const bool batch_norm = std::string_view(norm) == "batch_norm", post = std::string_view(position) == "post";
        if (v.name != "full" && batch_norm != post) continue;
        out.push_back({fmt::format("{} {} {}", v.name, norm, position),
                       std::string(v.name),
                       {fmt::format("model.norm.type={}", norm), fmt::format("model.norm.position={}", position)},
                       batch_norm});
      }
  return out;
}

std::unique_ptr<nn::Model> make(const Case& c, Dtype dtype, const data::Description& d, std::vector<std::string> more = {}) {
  std::vector<std::string> overrides = c.overrides;
  overrides.insert(overrides.end(), more.begin(), more.end());
  return models::make_model({.seed = 21, .dtype = dtype}, compare_settings(c.variant, overrides), d);
}

std::vector<std::string> frozen(const Case& c) {
  return c.batch_norm ? std::vector<std::string>{"model.norm.freeze=true"} : std::vector<std::string>();
}

struct Gradients {
  double loss = 0;
  std::vector<Tensor> values;
};

// Loss and gradients of the sum over the micro-batches.
Gradients gradients(nn::Model& model, const Execution& on, Dtype dtype, const std::vector<data::Batch>& batches,
                    Structures* structures = nullptr) {
  nn::ModelState state;
  model.visit(state);
  for (Parameter* p : state.parameters) p->gradient.fill_zero();
  Gradients out;
  GroupTotals totals;
  for (const data::Batch& batch : batches) {
    totals.targets += model.target_count(batch);
    totals.samples += batch.packing.sequences();
    totals.rows += batch.packing.rows();
  }
  for (const data::Batch& batch : batches) {
    Tape tape(on);
    Context context{.on = on, .tape = &tape, .mode = Mode::train, .seed = 21, .step = 2, .dtype = dtype};
    context.structures = structures;
    if (batches.size() > 1) context.group = &totals;
    const ops::Loss loss = model.loss(context, model.forward(context, batch), batch);
    out.loss += Matrix(loss.sum.value).values[0];
    tape.backward(loss.sum);
  }
  for (const Parameter* p : state.parameters) out.values.push_back(p->gradient.clone());
  return out;
}

bool same_bytes(const Gradients& a, const Gradients& b) {
  bool same = a.loss == b.loss && a.values.size() == b.values.size();
  for (size_t i = 0; same && i < a.values.size(); ++i) same = std::memcmp(a.values[i].raw(), b.values[i].raw(), a.values[i].bytes()) == 0;
  return same;
}

}  // namespace

TEST_CASE("model gradients agree with central differences", "[model]") {
  const TestDevice& device = test_devices().front();
  for (const data::Task task : {data::Task::classification, data::Task::regression, data::Task::tagging})
    for (const Case& c : cases()) {
      const data::Description d = token_description(task);
      const auto model = make(c, Dtype::f64, d);
      const std::vector<data::Batch> batch{token_batch(d, {3, 5, 2})};
      Structures chosen;
      const Gradients analytic = gradients(*model, device.on, Dtype::f64, batch, &chosen);
      nn::ModelState state;
      model->visit(state);
      const auto loss = [&] {
        Context context{.on = device.on, .mode = Mode::train, .seed = 21, .step = 2, .dtype = Dtype::f64};
        context.structures = &chosen;
        return Matrix(model->loss(context, model->forward(context, batch[0]), batch[0]).sum.value).values[0];
      };
      double largest = 0, worst = 0;
      for (size_t p = 0; p < state.parameters.size(); ++p) {
        const Tensor& value = state.parameters[p]->value;
        const int64_t i = static_cast<int64_t>(p * 7) % value.count();
        double& x = value.data<double>()[i];
        const double kept = x, step = 1e-6;
        x = kept + step;
        const double up = loss();
        x = kept - step;
        const double down = loss();
        x = kept;
        largest = std::max(largest, std::abs((up - down) / (2 * step)));
        worst = std::max(worst, std::abs((up - down) / (2 * step) - analytic.values[p].data<double>()[i]));
      }
      INFO(c.name << " task " << static_cast<int>(task) << " worst " << worst << " largest " << largest);
      CHECK(largest > 1e-4);
      CHECK(worst <= 2e-6 * std::max(1.0, largest));
    }
}

TEST_CASE("a model gives the same outputs when its BatchNorms are folded", "[model]") {
  const TestDevice& device = test_devices().front();
  const data::Description d = token_description();
  std::vector<Case> forms;
  for (const auto& v : models::attention_variants()) forms.push_back({std::string(v.name), std::string(v.name), {}});
  forms.push_back({"global with projections of its own", "global", {"model.attention.global.share_projections=false"}});
  forms.push_back({"global_external that keeps its rows", "global_external", {"model.attention.global_external.carry=false"}});
  for (const Case& c : forms) {
    INFO(c.name);
    const auto model = make(c, Dtype::f64, d, {"model.norm.type=batch_norm", "model.norm.position=pre"});
    Structures chosen;
    const auto run = [&](const data::Batch& batch, Mode mode, Structures* structures = nullptr) {
      Context context{.on = device.on, .mode = mode, .seed = 21, .step = 1, .dtype = Dtype::f64};
      context.structures = structures;
      return Matrix(model->forward(context, batch).value);
    };
    for (uint32_t i = 0; i < 20; ++i) run(token_batch(d, {30, 40, 50}, 3 * i), Mode::train);
    const data::Batch batch = token_batch(d, {3, 4, 65}, 100);
    const Matrix before = run(batch, Mode::evaluate, &chosen);
    CHECK(model->prepare_inference() >= 2);  // the feed-forwards' at least
    CHECK(relative_error(run(batch, Mode::evaluate, &chosen), before) <= 1e-10);
  }
}

TEST_CASE("micro-batches give the gradient of one batch, but for BatchNorm's statistics", "[model]") {
  const TestDevice& device = test_devices().front();
  const data::Description d = token_description();
  const std::vector<int32_t> lengths{3, 5, 1, 7, 2, 6};
  for (const Case& c : cases()) {
    const auto model = make(c, Dtype::f64, d, frozen(c));
    const Gradients whole = gradients(*model, device.on, Dtype::f64, {token_batch(d, lengths)});
    const Gradients parts =
        gradients(*model, device.on, Dtype::f64, {token_batch(d, {3, 5}), token_batch(d, {1, 7, 2}, 2), token_batch(d, {6}, 5)});
    INFO(c.name);
    CHECK(std::abs(whole.loss - parts.loss) <= 1e-10 * std::abs(whole.loss));
    for (size_t i = 0; i < whole.values.size(); ++i)
      CHECK(relative_error(Matrix(parts.values[i].reshaped({parts.values[i].count()})),
                           Matrix(whole.values[i].reshaped({whole.values[i].count()}))) <= 1e-10);
  }
}

TEST_CASE("a sequence's output does not depend on its batch mates in evaluation or with frozen BatchNorm", "[model]") {
  const data::Description d = token_description();
  const std::vector<int32_t> lengths{3, 65, 1, 7, 130, 6};
  for (const TestDevice& device : test_devices())
    for (const Case& c : cases())
      for (const Mode mode : {Mode::evaluate, Mode::train}) {
        const auto model = make(c, device.dtype, d, frozen(c));
        const auto run = [&](const data::Batch& batch) {
          Context context{.on = device.on, .mode = mode, .seed = 4, .step = 1, .dtype = device.dtype};
          return model->forward(context, batch).value;
        };
        const Tensor together = run(token_batch(d, lengths));
        INFO(c.name << " on " << device.name);
        for (size_t b = 0; b < lengths.size(); ++b) {
          const Tensor alone = run(token_batch(d, {lengths[b]}, static_cast<uint32_t>(b)));
          CHECK(std::memcmp(alone.raw(), together.rows(static_cast<int64_t>(b), 1).raw(), alone.bytes()) == 0);
        }
      }
}

TEST_CASE("loss and gradients are the same bytes for 1, 2, 3 and 8 threads", "[model]") {
  const data::Description d = token_description();
  const std::vector<int32_t> lengths{3, 65, 1, 70, 130, 6, 200, 299, 12, 40};
  for (const Case& c : cases()) {
    const auto model = make(c, Dtype::f32, d, {"model.dim=32", "model.feed_forward.dim=64"});
    ThreadPool one(1);
    const Gradients expected = gradients(*model, {Device::cpu, &one}, Dtype::f32, {token_batch(d, lengths)});
    for (const int n : {2, 3, 8}) {
      ThreadPool pool(n);
      // More than once, and on a busy machine until a second thread has had a share.
      for (int repeat = 0; repeat < 2 || (pool.threads_that_worked() < 2 && repeat < 200); ++repeat) {
        INFO(c.name << " with " << n << " threads");
        CHECK(same_bytes(expected, gradients(*model, {Device::cpu, &pool}, Dtype::f32, {token_batch(d, lengths)})));
      }
      CHECK(pool.threads_that_worked() > 1);
    }
  }
}

TEST_CASE("cpu agrees with reference in double", "[model]") {
  const data::Description d = token_description();
  const std::vector<int32_t> lengths{3, 65, 1, 70, 130, 6};
  for (const Case& c : cases()) {
    ThreadPool pool(2);
    const auto exact = make(c, Dtype::f64, d), fast = make(c, Dtype::f32, d);
    Structures chosen;  // what was decided from values in float holds for both
    const Gradients b = gradients(*fast, {Device::cpu, &pool}, Dtype::f32, {token_batch(d, lengths)}, &chosen);
    for (auto& [name, structure] : chosen)
      if (structure.dtype() == Dtype::f32) structure = structure.converted(Dtype::f64);
    const Gradients a = gradients(*exact, {Device::reference, nullptr}, Dtype::f64, {token_batch(d, lengths)}, &chosen);
    INFO(c.name);
    CHECK(std::abs(a.loss - b.loss) <= 1e-5 * std::abs(a.loss));
    for (size_t i = 0; i < a.values.size(); ++i)
      CHECK(relative_error(Matrix(b.values[i].reshaped({b.values[i].count()})), Matrix(a.values[i].reshaped({a.values[i].count()})),
                           1e-2) <= 1e-4);
  }
}
