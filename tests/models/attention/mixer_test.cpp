// SPDX-License-Identifier: Apache-2.0
// Token mixing: both activations, slices of the weights by length, and lengths that do not fit.
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;
using Catch::Matchers::ContainsSubstring;

namespace {

AttentionCase mixer(std::vector<std::string> overrides = {}) {
  overrides.insert(overrides.begin(), {"model.attention.type=mixer", "model.attention.mixer.hidden=6"});
  return attention_case("mixer", overrides);
}

Parameter& parameter(models::Attention& a, std::string_view name) {
  nn::ModelState state;
  a.visit(state);
  for (Parameter* p : state.parameters)
    if (p->name == name) return *p;
  FAIL("no parameter " << name);
  return *state.parameters.front();
}

}  // namespace

TEST_CASE("mixer keeps what every attention keeps", "[mixer]") {
  check_attention(mixer());
  check_attention(mixer({"model.attention.mixer.activation=gelu_tanh", "model.attention.mixer.max_length=511"}));
}

TEST_CASE("the parameters, their start and the cost", "[mixer]") {
  const auto attention = make_attention(mixer({"model.attention.mixer.max_length=400", "model.attention.mixer.hidden=256"}), Dtype::f64);
  const auto deviation = [](const Parameter& p) {
    double sum = 0;
    for (const double v : p.value.span<double>()) sum += v * v;
    return std::sqrt(sum / static_cast<double>(p.value.count()));
  };
  CHECK(parameter(*attention, "attention.up.weight").value.shape() == Shape{256, 400});
  CHECK(deviation(parameter(*attention, "attention.up.weight")) == Approx(1 / std::sqrt(400.0)).epsilon(0.02));
  CHECK(deviation(parameter(*attention, "attention.down.weight")) == Approx(1 / std::sqrt(256.0)).epsilon(0.02));
  CHECK(deviation(parameter(*attention, "attention.up.bias")) == 0);
  CHECK(deviation(parameter(*attention, "attention.down.bias")) == 0);
  CHECK(attention->cost({10, 0, 3}).forward_flops == 4.0 * 13 * 256 * 8);
  CHECK(attention->cost({10, 0, 3}).backward_flops == 8.0 * 13 * 256 * 8);
  CHECK(attention->cost({10}).saved_bytes == 4.0 * (10 + 256) * 8);
  CHECK(attention->pairs(7) == 49);
}

TEST_CASE("every row acts upon every row and no row beyond the sequence", "[mixer]") {
  const TestDevice& device = test_devices().front();
  const auto attention = make_attention(mixer(), Dtype::f64);
  const Packing packing({5}, {0});
  const Tensor x = random_tensor(Dtype::f64, {5, 8}, 1);
  const Tensor before = attention_output(*attention, device, x, packing);
  // Weights of positions that the sequence does not have.
  Parameter& up = parameter(*attention, "attention.up.weight");
  for (int64_t t = 0; t < 6; ++t)
    for (int64_t j = 5; j < 300; ++j) up.value.data<double>()[t * 300 + j] = NAN;
  CHECK(relative_error(Matrix(attention_output(*attention, device, x, packing)), Matrix(before)) == 0);
  x.data<double>()[4 * 8 + 2] += 1;
  const Tensor after = attention_output(*attention, device, x, packing);
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t c = 0; c < 8; ++c) CHECK((before.data<double>()[i * 8 + c] != after.data<double>()[i * 8 + c]) == (c == 2));
}

TEST_CASE("mixer refuses dropout of probabilities and longer sequences", "[mixer]") {
  CHECK_THROWS_WITH(model_settings({"model.attention.type=mixer", "model.attention.dropout=0.1"}),
                    ContainsSubstring("model.attention.dropout") && ContainsSubstring("model.attention.type"));
  CHECK_THROWS_WITH(model_settings({"model.attention.mixer.hidden=0"}), ContainsSubstring("model.attention.mixer.hidden"));
  CHECK_THROWS_WITH(make_attention(mixer({"model.attention.mixer.max_length=299"}), Dtype::f64),
                    ContainsSubstring("model.attention.mixer.max_length") && ContainsSubstring("data.max_length"));
  const auto attention = make_attention(mixer(), Dtype::f64);
  CHECK_THROWS_WITH(attention_output(*attention, test_devices().front(), Tensor::zeros(Dtype::f64, {301, 8}), Packing({301}, {0})),
                    ContainsSubstring("model.attention.mixer.max_length") && ContainsSubstring("data.max_length"));
}
