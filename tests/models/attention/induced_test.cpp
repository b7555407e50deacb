// SPDX-License-Identifier: Apache-2.0
// Induced points: two dense attentions one after the other, points that are shared by all sequences, and what they cost.
#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

AttentionCase induced(std::vector<std::string> overrides, const std::string& name = "induced") {
  overrides.push_back("model.attention.type=induced");
  return attention_case(name, overrides);
}

std::map<std::string, Parameter*> parameters(models::Attention& attention) {
  nn::ModelState state;
  attention.visit(state);
  std::map<std::string, Parameter*> out;
  for (Parameter* p : state.parameters) out[p->name] = p;
  return out;
}

}  // namespace

TEST_CASE("induced points keep what every attention keeps", "[induced]") {
  for (const int points : {1, 5, 70})
    check_attention(induced({fmt::format("model.attention.induced.points={}", points)}, fmt::format("{} points", points)));
}

TEST_CASE("induced points take heads of any width", "[induced]") {
  check_attention(induced({"model.dim=15", "model.attention.heads=3", "model.attention.induced.points=4"}, "heads of 5"));
}

TEST_CASE("induced points are two whole attentions over parameters of their own", "[induced]") {
  const auto attention = make_attention(induced({"model.attention.induced.points=5"}), Dtype::f64);
  const auto p = parameters(*attention);
  CHECK(p.size() == 17);
  CHECK(p.at("attention.points")->value.shape() == Shape{5, 8});
  for (const char* name : {"gather.query", "gather.key", "gather.value", "gather.output", "query", "key", "value", "output"}) {
    CHECK(p.at(fmt::format("attention.{}.weight", name))->value.shape() == Shape{8, 8});
    CHECK(p.at(fmt::format("attention.{}.bias", name))->value.shape() == Shape{8});
  }
}

TEST_CASE("the two attentions of induced points have draws of their own", "[induced]") {
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    const auto attention = make_attention(induced({"model.attention.induced.points=5"}), device.dtype, 0.3);
    const auto p = parameters(*attention);
    const auto apply = [&](const Matrix& in, const std::string& name) {
      return project(in, Matrix(p.at("attention." + name + ".weight")->value), Matrix(p.at("attention." + name + ".bias")->value));
    };
    const Packing packing({70}, {dropped_sample});
    const Tensor x = random_tensor(device.dtype, {70, 8}, 34);
    Context context = dropping(device);
    const Variable residual{Tensor::zeros(device.dtype, {70, 8}), no_node};
    const Matrix y(attention->forward(context, {x, no_node}, packing, {.residual = residual}).x.value);
    const Matrix rows(x), asks = apply(Matrix(p.at("attention.points")->value), "gather.query");
    const Matrix gathered = attend(asks, apply(rows, "gather.key"), apply(rows, "gather.value"), 2, kept_by("pack_dropout"));
    const Matrix points = apply(gathered, "gather.output");
    const Matrix o = attend(apply(rows, "query"), apply(points, "key"), apply(points, "value"), 2, kept_by("attention_dropout"));
    CHECK(relative_error(y, apply(o, "output")) <= 10 * device.tolerance);
  }
}

TEST_CASE("one point that gathers nothing special gives every row the mean of the values", "[induced]") {
  // With a query of zeros the point sees all rows alike; with one point every row takes all it has.
  const auto attention = make_attention(induced({"model.attention.induced.points=1"}), Dtype::f64);
  const auto p = parameters(*attention);
  p.at("attention.gather.query.weight")->value.fill_zero();
  const Packing packing({9}, {0});
  const Tensor x = random_tensor(Dtype::f64, {9, 8}, 31);
  Matrix mean(1, 8);
  for (int64_t r = 0; r < 9; ++r)
    for (int64_t c = 0; c < 8; ++c) mean(0, c) += x.data<double>()[r * 8 + c] / 9;
  const auto apply = [&](const Matrix& in, const std::string& name) {
    const Matrix w(p.at(name + ".weight")->value), b(p.at(name + ".bias")->value);
    Matrix y(1, 8);
    for (int64_t o = 0; o < 8; ++o) {
      y(0, o) = b(o, 0);
      for (int64_t c = 0; c < 8; ++c) y(0, o) += w(o, c) * in(0, c);
    }
    return y;
  };
  const Matrix gathered = apply(apply(mean, "attention.gather.value"), "attention.gather.output");
  const Matrix expected = apply(apply(gathered, "attention.value"), "attention.output");
  const Matrix y(attention_output(*attention, test_devices().front(), x, packing));
  for (int64_t r = 0; r < 9; ++r)
    for (int64_t c = 0; c < 8; ++c) CHECK(std::abs(y(r, c) - expected(0, c)) <= 1e-12);
}

TEST_CASE("the order of the rows changes nothing but the order of the results", "[induced]") {
  const auto attention = make_attention(induced({"model.attention.induced.points=5"}), Dtype::f64);
  const Packing packing({30}, {0});
  const Tensor x = random_tensor(Dtype::f64, {30, 8}, 32), turned(Dtype::f64, {30, 8});
  for (int64_t r = 0; r < 30; ++r) turned.rows(r, 1).copy_from(x.rows(29 - r, 1));
  const Matrix y(attention_output(*attention, test_devices().front(), x, packing));
  const Matrix back(attention_output(*attention, test_devices().front(), turned, packing));
  for (int64_t r = 0; r < 30; ++r)
    for (int64_t c = 0; c < 8; ++c) CHECK(std::abs(y(r, c) - back(29 - r, c)) <= 1e-12);
}

TEST_CASE("shown weights are those of both attentions and sum to one", "[induced]") {
  const auto attention = make_attention(induced({"model.attention.induced.points=5"}), Dtype::f64);
  Context context{.on = test_devices().front().on, .dtype = Dtype::f64};
  const Matrix w(attention->weights(context, {random_tensor(Dtype::f64, {11, 8}, 33), no_node}, Packing({11}, {0}), {}));
  REQUIRE(w.rows == 22);
  REQUIRE(w.columns == 11);
  for (int64_t r = 0; r < 22; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < 11; ++c) {
      CHECK(w(r, c) > 0);
      sum += w(r, c);
    }
    CHECK(std::abs(sum - 1) <= 1e-12);
  }
}

TEST_CASE("induced points need a whole layer", "[induced]") {
  CHECK_THROWS_WITH(model_settings({"~model.attention.heads", "model.attention.groups=[{type: induced, heads: 2}]"}),
                    Catch::Matchers::ContainsSubstring("model.attention.groups") && Catch::Matchers::ContainsSubstring("whole layer"));
}

TEST_CASE("cost and pairs of induced points", "[induced]") {
  const auto attention = make_attention(induced({"model.attention.induced.points=5"}), Dtype::f64);
  const models::AttentionCost cost = attention->cost({10, 3});
  CHECK(cost.forward_flops == 8.0 * 13 * 5 * 8 + 2 * 6 * 5 * 64);
  CHECK(cost.backward_flops == 20.0 * 13 * 5 * 8 + 2 * 12 * 5 * 64);
  CHECK(cost.saved_bytes == 4.0 * (2 * (13 + 10) + 2 * 5 * 5 * 8));
  CHECK(attention->projections() == 4);
  CHECK(attention->pairs(10) == 50);
}
