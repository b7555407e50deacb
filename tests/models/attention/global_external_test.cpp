// SPDX-License-Identifier: Apache-2.0
// Global attention by learned rows: carried through the layers or kept in each, with a window that covers all it is full attention over
// both, and layers agree on the rows.
#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

std::vector<std::string> external(int count, int window, bool carry) {
  return {"model.attention.type=global_external",
          fmt::format("model.attention.global_external={{count: {}, left: {}, right: {}, carry: {}}}", count, window, window, carry)};
}

}  // namespace

TEST_CASE("every form of global_external keeps what every attention keeps", "[global_external]") {
  for (const int count : {1, 5})
    for (const bool carry : {true, false})
      check_attention(attention_case(fmt::format("{} rows, carry {}", count, carry), external(count, 0, carry)));
  check_oracle(attention_case("more rows than a tile has", external(70, 0, true)));
  check_attention(attention_case("with a window", external(2, 3, true)));
  check_attention(attention_case("with a window, kept", external(2, 3, false)));
}

TEST_CASE("learned rows see all, the others see them and their window", "[global_external]") {
  const auto attention = make_attention(attention_case("carried", external(2, 1, true)), Dtype::f64);
  const models::Heads& heads = dynamic_cast<models::HeadAttention&>(*attention).group_of(0);
  for (int i = 0; i < 9; ++i)
    for (int j = 0; j < 9; ++j) CHECK(heads.allowed(9, 0, i, j) == (i < 2 || j < 2 || std::abs(i - j) <= 1));
}

TEST_CASE("a layer's own rows are counted once", "[global_external]") {
  const auto kept = make_attention(attention_case("kept", external(5, 0, false)), Dtype::f64);
  const auto carried = make_attention(attention_case("carried", external(5, 0, true)), Dtype::f64);
  CHECK(kept->pairs(8) == 5 * 13 + 8 * 6);  // learned rows see all 13, each of the 8 sees those and itself
  CHECK(kept->pairs(8) == carried->pairs(13));
  const models::AttentionCost of_kept = kept->cost({8, 3}), of_carried = carried->cost({13, 8});
  CHECK(of_kept.forward_flops == of_carried.forward_flops);
  CHECK(of_kept.backward_flops == of_carried.backward_flops);
  CHECK(of_kept.saved_bytes == of_carried.saved_bytes);
}

TEST_CASE("carried rows are the encoder's, kept ones the layer's", "[global_external]") {
  for (const bool carry : {true, false}) {
    const auto model = models::make_model({.seed = 1}, model_settings(external(3, 0, carry)), token_description());
    nn::ModelState state;
    model->visit(state);
    std::vector<std::string> names;
    for (const Parameter* p : state.parameters)
      if (p->name.ends_with("extra_rows")) {
        names.push_back(p->name);
        CHECK(p->value.shape() == Shape{3, 8});
      }
    CHECK(names == (carry ? std::vector<std::string>{"encoder.extra_rows"}
                          : std::vector<std::string>{"encoder.layers.0.attention.extra_rows", "encoder.layers.1.attention.extra_rows"}));
  }
}

TEST_CASE("with a wide window it is full attention over the learned rows and the others", "[global_external]") {
  const data::Description d = token_description(data::Task::tagging);
  for (const int n : {1, 2, 65}) {
    models::ModelSettings full = model_settings({"model.attention.type=full"});
    full.attention.extra_rows = {3, 0.02};
    const auto output = [&](const models::ModelSettings& s) {
      const auto model = models::make_model({.seed = 1, .dtype = Dtype::f64}, s, d);
      Context context{.on = test_devices().front().on, .dtype = Dtype::f64};
      const Tensor y = model->forward(context, token_batch(d, {n, 2})).value;
      CHECK(y.shape()[0] == n + 2);  // a tagger reads the ordinary rows
      return Matrix(y);
    };
    CHECK(relative_error(output(model_settings(external(3, n, true))), output(full)) <= 1e-12);
  }
}

TEST_CASE("layers and groups must agree on the rows that run through them", "[global_external]") {
  try {
    model_settings({"~model.attention.heads",
                    "model.attention.groups=[{type: global_external, global_external: {count: 2}}, {type: global_external, "
                    "global_external: {count: 3}}]"});
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::usage);
    CHECK_THAT(e.what(), Catch::Matchers::ContainsSubstring("model.attention.groups.0.type"));
    CHECK_THAT(e.what(), Catch::Matchers::ContainsSubstring("model.attention.groups.1.type"));
  }
  const models::ModelSettings mixed = model_settings({"model.attention.type=[full, global_external]"});
  CHECK(mixed.attention.extra_rows.count == 16);
  check_attention({"a layer of another type sees the rows", mixed, 0});
  CHECK_THROWS_AS(model_settings({"model.attention.global_external.count=0"}), Error);
}
