// SPDX-License-Identifier: Apache-2.0
// The redraw count: a buffer that moves with the updates only, and draws that depend on it, the layer and the head's number in the layer.
#include "models/attention/redraws.h"

#include "tests/support/catch.h"

using namespace tapeformer;
using models::Redraws;

namespace {

models::HeadSettings settings(int first_head = 0) {
  return {.layer_name = "encoder.layers.1.attention", .name = "encoder.layers.1.attention.groups.0", .heads = 2, .first_head = first_head};
}

Context at(uint32_t step) { return {.mode = Mode::train, .step = step}; }

}  // namespace

TEST_CASE("the count moves after every so many updates and is a buffer", "[redraws]") {
  Redraws redraws({.seed = 3}, settings());
  nn::ModelState state;
  redraws.visit(state);
  REQUIRE(state.buffers.size() == 1);
  CHECK(state.buffers[0]->name == "encoder.layers.1.attention.groups.0.redraws");
  CHECK(state.buffers[0]->value.dtype() == Dtype::i64);
  for (uint32_t step = 1; step <= 7; ++step) CHECK(redraws.advance(at(step), 3) == (step % 3 == 0));
  CHECK(redraws.count() == 2);
  state.buffers[0]->value.data<int64_t>()[0] = 5;  // as a checkpoint does
  CHECK(redraws.draw("features", 0).step == 5);
}

TEST_CASE("a draw has the key of its layer and head, whatever group the head is in", "[redraws]") {
  const Redraws redraws({.seed = 3}, settings()), second({.seed = 3}, settings(1));
  CHECK(redraws.draw("features", 1).key == random_key(3, "features", "encoder.layers.1.attention", 1));
  CHECK(redraws.draw("features", 1).key == second.draw("features", 0).key);
  CHECK(redraws.draw("features", 1, 4).key == random_key(3, "features", "encoder.layers.1.attention", 1, 4));
  CHECK(redraws.shared_draw("features").key == random_key(3, "features", "encoder.layers.1.attention"));
  CHECK(redraws.draw("features", 0).sample == no_sample);
}
