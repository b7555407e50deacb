// SPDX-License-Identifier: Apache-2.0
// Full attention: every pair is planned once.
#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"

using namespace tapeformer;

TEST_CASE("full attention costs all pairs", "[full]") {
  const auto attention = test::make_attention(test::attention_case("full", {"model.attention.type=full"}), Dtype::f64);
  const models::AttentionCost cost = attention->cost({10, 3});
  CHECK(cost.forward_flops == 4.0 * (100 + 9) * 8);
  CHECK(cost.backward_flops == 10.0 * (100 + 9) * 8);
  CHECK(attention->pairs(10) == 100);
  const models::Heads& heads = dynamic_cast<models::HeadAttention&>(*attention).group_of(0);
  for (int i = 0; i < 10; ++i)
    for (int j = 0; j < 10; ++j) CHECK(heads.allowed(10, 0, i, j));
}
