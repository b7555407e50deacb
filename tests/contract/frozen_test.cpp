// SPDX-License-Identifier: Apache-2.0
// Freezing by name with every attention variant and both norms: what is frozen keeps its bytes, and the others' gradients are those of a
// model without anything frozen, whichever part of a fused op is.
#include <cstring>
#include <map>

#include "framework/core/parallel.h"
#include "framework/nn/freeze.h"
#include "framework/optim/optimizer.h"
#include "tests/support/catch.h"
#include "tests/support/devices.h"
#include "tests/support/matrix.h"
#include "tests/support/model_fixture.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

struct Model {
  std::unique_ptr<nn::Model> model;
  nn::ModelState state;
  std::unique_ptr<optim::Optimizer> optimizer = optim::make_optimizer({});

  Model(std::string_view variant, Dtype dtype, std::vector<std::string> overrides, const std::vector<std::string>& frozen)
      : model(models::make_model({.seed = 21, .dtype = dtype}, compare_settings(variant, std::move(overrides)), token_description())) {
    model->visit(state);
    CHECK(nn::freeze(state, frozen).empty());
  }

  // Adds the gradients of an update, moves the parameters, and lets the model do what it does after one.
  void update(const TestDevice& device, uint32_t step) {
    const data::Batch batch = token_batch(token_description(), {3, 17, 65}, step);
    Tape tape(device.on);
    Context context{.on = device.on, .tape = &tape, .mode = Mode::train, .seed = 21, .step = step, .dtype = device.dtype};
    tape.backward(model->loss(context, model->forward(context, batch), batch).sum);
    Context after{.on = device.on, .mode = Mode::train, .seed = 21, .step = step, .dtype = device.dtype};
    optimizer->step(device.on, step, 0.01, 1, 0, state.parameters);
    model->after_update(after);
  }

  // The values of all parameters and buffers by name.
  std::map<std::string, Tensor> tensors() const {
    std::map<std::string, Tensor> out;
    for (const Parameter* p : state.parameters) out[p->name] = p->value.clone();
    for (const nn::Buffer* b : state.buffers) out[b->name] = b->value.clone();
    return out;
  }
};

bool same_bytes(const Tensor& a, const Tensor& b) { return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0; }

}  // namespace

TEST_CASE("B03: a frozen layer keeps its weights, statistics, centroids and draws", "[frozen]") {
  std::map<std::string, int> moved;  // by the last part of the name, of what is not frozen
  for (const auto& v : models::attention_variants())
    for (const char* norm : {"layer_norm", "batch_norm"})
      for (const TestDevice& device : test_devices()) {
        Model m(v.name, device.dtype, {fmt::format("model.norm.type={}", norm)}, {"encoder.layers.0.*"});
        const auto before = m.tensors();
        for (const uint32_t step : {1u, 2u, 1000u}) m.update(device, step);  // Performer draws anew after 1,000
        const auto after = m.tensors();
        int here = 0;
        for (const auto& [name, value] : before) {
          INFO(v.name << " " << norm << " on " << device.name << ": " << name);
          const bool same = same_bytes(value, after.at(name));
          const bool frozen = name.starts_with("encoder.layers.0.");
          if (frozen) CHECK(same);
          here += !frozen && !same;
          moved[name.substr(name.rfind('.') + 1)] += !frozen && !same;
        }
        INFO(v.name << " " << norm << " on " << device.name);
        CHECK(here > 5);
      }
  for (const char* part : {"weight", "bias", "running_mean", "running_var", "num_batches_tracked", "redraws", "features", "centroids",
                           "centroid_counts", "centroid_sums"}) {
    INFO(part);
    CHECK(moved[part] > 0);
  }
}

TEST_CASE("the gradients of what is not frozen do not depend on what is", "[frozen]") {
  const std::vector<std::vector<std::string>> choices{{"*.bias"},
                                                      {"*.weight"},
                                                      {"*norm.*"},
                                                      {"*.attention.query*", "*.up.weight"},
                                                      {"*.value.*", "*.down.bias", "embedding.*"},
                                                      {"*.output.*", "head.*"},
                                                      {"embedding.*", "encoder.extra_rows", "encoder.layers.0.*"}};
  int compared = 0, frozen = 0;
  for (const auto& v : models::attention_variants())
    for (const TestDevice& device : test_devices()) {
      Model all(v.name, device.dtype, {}, {});
      all.update(device, 1);
      for (const auto& choice : choices) {
        Model some(v.name, device.dtype, {}, {});
        nn::freeze(some.state, choice);
        some.update(device, 1);
        for (size_t p = 0; p < all.state.parameters.size(); ++p) {
          const Parameter& mine = *some.state.parameters[p];
          INFO(v.name << " on " << device.name << ": " << mine.name << " with " << choice[0] << " frozen");
          compared += mine.trainable;
          frozen += !mine.trainable;
          if (mine.trainable) CHECK(same_bytes(mine.gradient, all.state.parameters[p]->gradient));
        }
      }
    }
  CHECK(compared > 4000);
  CHECK(frozen > 2000);
}
