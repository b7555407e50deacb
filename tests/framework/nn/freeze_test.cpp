// SPDX-License-Identifier: Apache-2.0
// Freezing by name: what matches stays, what does not is left alone, and patterns that match nothing are named.
#include "framework/nn/freeze.h"
#include "tests/support/catch.h"

using namespace tapeformer;

TEST_CASE("names and patterns freeze parameters and buffers", "[freeze]") {
  Parameter up{"encoder.layers.0.up.weight", {}, {}}, other{"encoder.layers.10.up.weight", {}, {}}, head{"head.weight", {}, {}};
  nn::Buffer mean{"encoder.layers.0.norm.running_mean", {}}, count{"encoder.layers.10.norm.running_mean", {}};
  nn::ModelState state;
  for (Parameter* p : {&up, &other, &head}) state.parameter(*p);
  for (nn::Buffer* b : {&mean, &count}) state.buffer(*b);
  CHECK(nn::freeze(state, {}).empty());
  CHECK((up.trainable && other.trainable && head.trainable && !mean.frozen && !count.frozen));
  CHECK(nn::freeze(state, {"encoder.layers.0.*", "head.weight"}).empty());
  CHECK((!up.trainable && other.trainable && !head.trainable && mean.frozen && !count.frozen));
  nn::Buffer variance{"encoder.layers.10.norm.running_var", {}};
  state.buffer(variance);
  nn::freeze(state, {"*running_var"});
  CHECK((variance.frozen && count.frozen));  // they are one BatchNorm's
  CHECK(nn::freeze(state, {"encoder.layers.3.*", "*.up.*", "Head.*"}) == std::vector<std::string>{"encoder.layers.3.*", "Head.*"});
  CHECK(!other.trainable);
}
