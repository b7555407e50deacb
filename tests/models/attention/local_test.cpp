// SPDX-License-Identifier: Apache-2.0
// Local attention: the window counts extra keys on each side, blocks are counted from row 0, and a wide enough window is full attention.
#include <cstring>

#include "models/attention/attention.h"
#include "tests/support/catch.h"
#include "tests/support/devices.h"
#include "tests/support/matrix.h"
#include "tests/support/model_fixture.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

std::unique_ptr<models::Attention> make(std::vector<std::string> overrides, Dtype dtype = Dtype::f64) {
  const models::ModelSettings s = model_settings(overrides);
  return models::attention_variants()[s.attention[0]].make({.seed = 1, .dtype = dtype}, "a", {.dim = 8, .heads = 2, .max_length = 300},
                                                           s.own_settings[s.attention[0]].get());
}

int allowed_keys(const models::Attention& a, int n, int i) {
  int count = 0;
  for (int j = 0; j < n; ++j) count += a.allowed(n, 0, i, j);
  return count;
}

}  // namespace

TEST_CASE("a band has left + right + 1 keys inside and fewer at the ends", "[local]") {
  const auto a = make({"model.attention.type=local"});
  CHECK(allowed_keys(*a, 20, 10) == 6);
  CHECK(allowed_keys(*a, 20, 0) == 3);
  CHECK(allowed_keys(*a, 20, 19) == 4);
  CHECK_FALSE(a->allowed(20, 0, 10, 6));
  CHECK(a->allowed(20, 0, 10, 7));
  CHECK(a->allowed(20, 0, 10, 12));
  CHECK_FALSE(a->allowed(20, 0, 10, 13));
}

TEST_CASE("blocks start at row 0 and whole neighbours are seen", "[local]") {
  const auto a = make({"model.attention.type=local", "model.attention.local.form=blocked"});
  CHECK(a->allowed(20, 0, 4, 0));
  CHECK(a->allowed(20, 0, 7, 11));
  CHECK_FALSE(a->allowed(20, 0, 3, 8));
  CHECK(allowed_keys(*a, 20, 5) == 12);
  CHECK(allowed_keys(*a, 9, 8) == 5);
}

TEST_CASE("a window or a block that covers the sequence is full attention", "[local]") {
  const auto full = make({"model.attention.type=full"});
  for (const int n : {1, 2, 7, 64, 65, 130})
    for (const auto& overrides : std::vector<std::vector<std::string>>{
             {"model.attention.type=local", fmt::format("model.attention.local.left={}", n - 1),
              fmt::format("model.attention.local.right={}", n - 1)},
             {"model.attention.type=local", "model.attention.local.form=blocked", fmt::format("model.attention.local.block={}", n)}}) {
      const auto local = make(overrides);
      const Packing packing({n}, {0});
      const Tensor x = random_tensor(Dtype::f64, {n, 8}, 3);
      const auto run = [&](models::Attention& a) {
        Context context{.on = test_devices().front().on, .dtype = Dtype::f64};
        return a.forward(context, {x, no_node}, packing, {.residual = {Tensor::zeros(Dtype::f64, {n, 8}), no_node}}).x.value;
      };
      const Tensor a = run(*full), b = run(*local);
      CHECK(relative_error(Matrix(a), Matrix(b)) <= 1e-12);
    }
}

TEST_CASE("settings out of range are config faults", "[local]") {
  CHECK_THROWS_AS(model_settings({"model.attention.local.block=0"}), Error);
  CHECK_THROWS_AS(model_settings({"model.attention.local.left=-1"}), Error);
  CHECK_THROWS_AS(model_settings({"model.attention.local.form=bands"}), Error);
}
