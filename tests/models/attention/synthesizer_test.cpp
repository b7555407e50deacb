// SPDX-License-Identifier: Apache-2.0
// Synthesizer: every mode alone and mixed, which parameters there are, limits and refused settings.
#include "framework/core/buffer.h"
#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;
using Catch::Matchers::ContainsSubstring;

namespace {

AttentionCase synthesizer(const std::string& mode, std::vector<std::string> own = {}) {
  std::vector<std::string> overrides{"model.attention.type=synthesizer", "model.attention.synthesizer.mode=" + mode};
  if (mode == "factorised_random") overrides.push_back("model.attention.synthesizer.rank=3");
  for (const std::string& o : own) overrides.push_back("model.attention.synthesizer." + o);
  return attention_case(mode + (own.empty() ? "" : " " + own[0]), overrides);
}

std::map<std::string, Shape> parameters_of(models::Attention& a) {
  nn::ModelState state;
  a.visit(state);
  std::map<std::string, Shape> out;
  for (const Parameter* p : state.parameters) out.emplace(p->name.substr(std::string("attention.").size()), p->value.shape());
  return out;
}

Parameter& parameter(models::Attention& a, std::string_view name) {
  nn::ModelState state;
  a.visit(state);
  for (Parameter* p : state.parameters)
    if (p->name == fmt::format("attention.{}", name)) return *p;
  FAIL("no parameter " << name);
  return *state.parameters.front();
}

Matrix weights_of(models::Attention& a, const Tensor& x) {
  Context context{.on = test_devices().front().on, .dtype = Dtype::f64};
  return Matrix(a.weights(context, {x, no_node}, Packing({static_cast<int32_t>(x.shape()[0])}, {0}), {}));
}

const std::vector<std::string> modes{"dense", "random", "frozen_random", "factorised_random", "factorised_dense"};

}  // namespace

TEST_CASE("every mode of synthesizer keeps what every attention keeps", "[synthesizer]") {
  for (const std::string& mode : modes) check_attention(synthesizer(mode));
}

TEST_CASE("so do the mixtures with queries and keys", "[synthesizer]") {
  for (const std::string& mode : modes) check_attention(synthesizer(mode, {"mixture=alpha"}));
  for (const char* mode : {"dense", "random", "factorised_dense"}) check_attention(synthesizer(mode, {"mixture=sum"}));
  check_attention(synthesizer("factorised_random", {"mixture=sum", "rank=6"}));
}

TEST_CASE("only the projections and parameters that take part are there", "[synthesizer]") {
  using Names = std::map<std::string, Shape>;
  const auto shapes = [](const std::string& mode, std::vector<std::string> own = {}) {
    Names all = parameters_of(*make_attention(synthesizer(mode, own), Dtype::f64));
    for (const char* always : {"value.weight", "value.bias", "output.weight", "output.bias"}) CHECK(all.erase(always) == 1);
    return all;
  };
  CHECK(shapes("random") == Names{{"scores.table", {600, 300}}});
  CHECK(shapes("frozen_random").empty());
  CHECK(shapes("factorised_random") == Names{{"scores.queries", {300, 6}}, {"scores.keys", {300, 6}}});
  CHECK(shapes("dense") == Names{{"query.weight", {8, 8}}, {"query.bias", {8}}, {"scores.weight", {300, 8}}, {"scores.bias", {300, 2}}});
  CHECK(shapes("factorised_dense") == Names{{"query.weight", {8, 8}}, {"query.bias", {8}}, {"scores.inner", {36, 4}}, {"scores.outer", {34, 4}}});
  CHECK(shapes("random", {"mixture=sum"}).size() == 5);
  CHECK(shapes("random", {"mixture=alpha"}).at("scores.alpha") == Shape{1, 1});
}

TEST_CASE("the frozen table is a buffer, drawn as the learned one starts", "[synthesizer]") {
  const auto frozen = make_attention(synthesizer("frozen_random"), Dtype::f64);
  nn::ModelState state;
  frozen->visit(state);
  REQUIRE(state.buffers.size() == 1);
  CHECK(state.buffers[0]->name == "attention.scores.table");
  const auto random = make_attention(synthesizer("random"), Dtype::f64);
  const Parameter& table = parameter(*random, "scores.table");
  CHECK(relative_error(Matrix(state.buffers[0]->value), Matrix(table.value)) == 0);
  double squares = 0;
  for (const double v : table.value.span<double>()) squares += v * v;
  CHECK(std::sqrt(squares / static_cast<double>(table.value.count())) == Approx(1 / std::sqrt(300.0)).epsilon(0.02));
}

TEST_CASE("scores of zero give the mean of the values", "[synthesizer]") {
  for (const auto& [mode, names] : std::map<std::string, std::vector<std::string>>{
           {"random", {"scores.table"}}, {"factorised_random", {"scores.keys"}}, {"dense", {"scores.weight"}}, {"factorised_dense", {"scores.outer"}}}) {
    const auto attention = make_attention(synthesizer(mode), Dtype::f64);
    for (const std::string& name : names) parameter(*attention, name).value.fill_zero();
    for (const double w : weights_of(*attention, random_tensor(Dtype::f64, {9, 8}, 2)).values) CHECK(std::abs(w - 1.0 / 9) <= 1e-15);
  }
}

TEST_CASE("random scores are the same for all sequences, dense ones are not", "[synthesizer]") {
  for (const std::string& mode : modes) {
    const auto attention = make_attention(synthesizer(mode), Dtype::f64);
    const Matrix a = weights_of(*attention, random_tensor(Dtype::f64, {9, 8}, 2)), b = weights_of(*attention, random_tensor(Dtype::f64, {9, 8}, 3));
    CHECK((relative_error(a, b) <= 1e-14) == (mode.find("random") != std::string::npos));
  }
}

TEST_CASE("without scores of its own the sum is full attention, and alpha takes shares of both", "[synthesizer]") {
  const TestDevice& device = test_devices().front();
  const Packing packing({70, 3}, {0, 1});
  const Tensor x = random_tensor(Dtype::f64, {73, 8}, 4);
  const Matrix full(attention_output(*make_attention(attention_case("full", {"model.attention.type=full"}), Dtype::f64), device, x, packing));
  const auto sum = make_attention(synthesizer("factorised_random", {"mixture=sum"}), Dtype::f64);
  parameter(*sum, "scores.keys").value.fill_zero();
  CHECK(relative_error(Matrix(attention_output(*sum, device, x, packing)), full) <= 1e-12);
  const auto alpha = make_attention(synthesizer("factorised_random", {"mixture=alpha"}), Dtype::f64);
  const auto random = make_attention(synthesizer("factorised_random"), Dtype::f64);
  parameter(*alpha, "scores.alpha").value.data<double>()[0] = -40;
  CHECK(relative_error(Matrix(attention_output(*alpha, device, x, packing)), full) <= 1e-12);
  parameter(*alpha, "scores.alpha").value.data<double>()[0] = 40;
  CHECK(relative_error(Matrix(attention_output(*alpha, device, x, packing)), Matrix(attention_output(*random, device, x, packing))) <= 1e-12);
}

TEST_CASE("a share of a table takes one more table, not one of equal numbers besides", "[synthesizer]") {
  const auto attention = make_attention(synthesizer("random", {"mixture=alpha"}), Dtype::f64);
  const Tensor x = random_tensor(Dtype::f64, {4, 8}, 4);
  const Packing packing({4}, {0});
  const uint64_t table = parameter(*attention, "scores.table").value.bytes(), before = allocator_statistics().bytes_in_use;
  reset_peak_bytes();
  attention_output(*attention, test_devices().front(), x, packing);
  CHECK(allocator_statistics().peak_bytes - before >= table);
  CHECK(allocator_statistics().peak_bytes - before < 3 * table / 2);
}

TEST_CASE("pairs and cost of synthesizer", "[synthesizer]") {
  const auto cost = [](const std::string& mode, std::vector<std::string> own = {}) {
    return make_attention(synthesizer(mode, own), Dtype::f64)->cost({10, 0});
  };
  const double n2 = 2 * 100;  // of both heads
  CHECK(cost("random").forward_flops == n2 * 2 * 4);
  CHECK(cost("random").backward_flops == n2 * (4 * 4 + 1));
  CHECK(cost("dense").forward_flops == n2 * (2 * 5 + 2 * 4));
  CHECK(cost("dense").backward_flops == n2 * (6 * 5 + 4 * 4));
  CHECK(cost("factorised_random").forward_flops == n2 * (2 * 3 + 2 * 4));
  CHECK(cost("random", {"mixture=sum"}).forward_flops == n2 * 4 * 4);
  CHECK(make_attention(synthesizer("dense"), Dtype::f64)->pairs(10) == 100);
}

TEST_CASE("synthesizer refuses longer sequences and words it does not know", "[synthesizer]") {
  for (const std::string& mode : modes)
    CHECK_THROWS_WITH(make_attention(synthesizer(mode, {"max_length=299"}), Dtype::f64),
                      ContainsSubstring("model.attention.synthesizer.max_length") && ContainsSubstring("data.max_length"));
  const auto attention = make_attention(synthesizer("dense"), Dtype::f64);
  CHECK_THROWS_WITH(attention_output(*attention, test_devices().front(), Tensor::zeros(Dtype::f64, {301, 8}), Packing({301}, {0})),
                    ContainsSubstring("model.attention.synthesizer.max_length") && ContainsSubstring("data.max_length"));
  CHECK_THROWS_WITH(model_settings({"model.attention.synthesizer.mode=sparse"}), ContainsSubstring("factorised_dense"));
  // Without queries and keys it needs a layer of its own; mixed it may stand in a group.
  const auto groups = [](const char* own) {
    return std::vector<std::string>{"~model.attention.heads", fmt::format("model.attention.groups=[{{type: full}}, {{type: synthesizer, synthesizer: {{{}}}}}]", own)};
  };
  CHECK_THROWS_WITH(model_settings(groups("mode: random")), ContainsSubstring("model.attention.groups"));
  check_attention(attention_case("a group", groups("mode: random, mixture: sum")));
}
