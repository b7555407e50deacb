// SPDX-License-Identifier: Apache-2.0
// The weights that a variant shows are those it uses: with the layer's own values and output projection they give its result, and none
// stands where the pattern has no pair.
#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

// weights [heads * n, n] times the values, head by head, and the output projection.
Matrix result_of(models::Attention& a, const std::string& values, const Matrix& x, const Matrix& weights, int64_t heads) {
  nn::ModelState state;
  a.visit(state);
  std::map<std::string, Matrix> p;
  for (const Parameter* parameter : state.parameters) p[parameter->name] = Matrix(parameter->value);
  const Matrix v = project(x, p.at("attention." + values + ".weight"), p.at("attention." + values + ".bias"));
  Matrix o(x.rows, x.columns);
  for (int64_t c = 0; c < x.columns; ++c)
    for (int64_t i = 0; i < x.rows; ++i)
      for (int64_t j = 0; j < x.rows; ++j) o(i, c) += weights(c / (x.columns / heads) * x.rows + i, j) * v(j, c);
  return project(o, p.at("attention.output.weight"), p.at("attention.output.bias"));
}

}  // namespace

TEST_CASE("weights shown on demand are the ones in use", "[attention]") {
  int shown = 0;
  for (const auto& variant : models::attention_variants())
    for (const TestDevice& device : test_devices())
      for (const int32_t n : {1, 3, 4, 5, 37, 70}) {
        INFO(variant.name << " on " << device.name << ", " << n << " rows");
        const AttentionCase c{.name = std::string(variant.name), .settings = compare_settings(variant.name)};
        const auto a = make_attention(c, device.dtype);
        const auto* of_heads = dynamic_cast<const models::HeadAttention*>(a.get());
        const Packing packing = packing_for(c, {n});
        const int32_t rows = packing.rows();
        const Tensor x = random_tensor(device.dtype, {rows, c.settings.dim}, 21);
        Context context{.on = device.on, .dtype = device.dtype};
        Structures structures;
        context.structures = &structures;
        const Tensor weights = a->weights(context, {x, no_node}, packing, {});
        if (!weights.defined() || !of_heads) continue;  // what is no layer of heads has its own test
        ++shown;
        const int64_t heads = c.settings.attention.heads;
        REQUIRE(weights.shape() == Shape{heads * rows, rows});
        const Matrix w(weights), expected = result_of(*a, of_heads->parts().back(), Matrix(x), w, heads);
        CHECK(relative_error(Matrix(attention_output(*a, device, x, packing, &structures)), expected) <= 100 * device.tolerance);
        int64_t strangers = 0;
        for (int h = 0; h < heads; ++h)
          for (int32_t i = 0; i < rows; ++i)
            for (int32_t j = 0; j < rows; ++j) strangers += !of_heads->group_of(h).allowed_in_layer(rows, h, i, j) && w(h * rows + i, j) != 0;
        CHECK(strangers == 0);
      }
  CHECK(shown == 22 * 3 * 6);  // all but fnet, mixer, induced, luna and the filters of compressed
}

TEST_CASE("weights are refused for what cannot be shown", "[attention]") {
  const TestDevice& device = test_devices().front();
  const auto a = make_attention(attention_case("full", {"model.attention.type=full"}), device.dtype);
  const Variable x{random_tensor(device.dtype, {5, 8}, 22), no_node};
  Context context{.on = device.on, .dtype = device.dtype};
  CHECK_THROWS_AS(a->weights(context, x, Packing({2, 3}, {0, 1}), {}), Error);
  context.mode = Mode::train;
  CHECK_THROWS_AS(a->weights(context, x, Packing({5}, {0}), {}), Error);
}

TEST_CASE("pairs are those that a pattern allows, and all where everything is mixed", "[attention]") {
  const auto pairs = [](const std::vector<std::string>& overrides, int32_t n) {
    return make_attention(attention_case("pairs", overrides), Dtype::f64)->pairs(n);
  };
  CHECK(pairs({"model.attention.type=full"}, 50) == 2500);
  CHECK(pairs({"model.attention.type=linear"}, 50) == 2500);
  // Four keys a row, less what would lie before the first and after the last row.
  CHECK(pairs({"model.attention.type=local", "model.attention.local.left=2", "model.attention.local.right=1"}, 10) == 40 - 3 - 1);
}
