// SPDX-License-Identifier: Apache-2.0
// Full attention: every pair is planned once, and a permutation of the keys changes nothing but rounding.
#include "framework/kernels/tile_plan.h"
#include "models/attention/attention.h"
#include "tests/support/catch.h"
#include "tests/support/model_fixture.h"

using namespace tapeformer;

TEST_CASE("full attention costs all pairs", "[full]") {
  const models::ModelSettings s = test::model_settings({"model.attention.type=full"});
  const auto attention = models::attention_variants()[s.attention[0]].make({}, "a", {.dim = 8, .heads = 2, .max_length = 10}, nullptr);
  const models::AttentionCost cost = attention->cost({10, 3});
  CHECK(cost.forward_flops == 4.0 * (100 + 9) * 8);
  CHECK(cost.backward_flops == 10.0 * (100 + 9) * 8);
  for (int i = 0; i < 10; ++i)
    for (int j = 0; j < 10; ++j) CHECK(attention->allowed(10, 0, i, j));
}
