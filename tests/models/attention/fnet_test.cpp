// SPDX-License-Identifier: Apache-2.0
// FNet: exact and grid form, no parameters, and a result that does not depend on how a batch would have been padded.
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;
using Catch::Matchers::ContainsSubstring;

namespace {

AttentionCase fnet(std::vector<std::string> overrides = {}) {
  overrides.insert(overrides.begin(), "model.attention.type=fnet");
  return attention_case("fnet", overrides);
}

}  // namespace

TEST_CASE("fnet keeps what every attention keeps, in both modes", "[fnet]") {
  check_attention(fnet());
  check_attention(fnet({"model.attention.fnet.mode=grid"}));
  check_attention(fnet({"model.attention.fnet.mode=grid", "model.attention.fnet.max_length=331"}));
}

TEST_CASE("fnet has no parameters and costs a transform", "[fnet]") {
  const auto attention = make_attention(fnet(), Dtype::f64);
  nn::ModelState state;
  attention->visit(state);
  CHECK(state.parameters.empty());
  CHECK(state.buffers.empty());
  const models::AttentionCost cost = attention->cost({16, 0, 32});
  CHECK(cost.forward_flops == 2.5 * 8 * (16 * 7 + 32 * 8));
  CHECK(cost.backward_flops == cost.forward_flops);
  CHECK(cost.saved_bytes == 0);
  CHECK(attention->pairs(10) == 100);
  CHECK(make_attention(fnet({"model.attention.fnet.mode=grid", "model.attention.fnet.max_length=512"}), Dtype::f64)->cost({3}).forward_flops ==
        2.5 * 4096 * 12);
  CHECK_FALSE(attention->input_readers().has_value());
}

TEST_CASE("the grid is the exact form of the sequence continued with zeros", "[fnet]") {
  const TestDevice& device = test_devices().front();
  const auto exact = make_attention(fnet(), Dtype::f64);
  const auto grid = make_attention(fnet({"model.attention.fnet.mode=grid", "model.attention.fnet.max_length=300"}), Dtype::f64);
  const Tensor x = Tensor::zeros(Dtype::f64, {300, 8});
  x.rows(0, 37).copy_from(random_tensor(Dtype::f64, {37, 8}, 3));
  const Matrix whole(attention_output(*exact, device, x, Packing({300}, {0})).rows(0, 37));
  CHECK(relative_error(Matrix(attention_output(*grid, device, x.rows(0, 37).clone(), Packing({37}, {0}))), whole) <= 1e-12);
  // At its own length it is something else: padding a batch would have changed it.
  CHECK(relative_error(Matrix(attention_output(*exact, device, x.rows(0, 37).clone(), Packing({37}, {0}))), whole) > 1e-3);
}

TEST_CASE("transforming twice gives the sequence back, turned round", "[fnet]") {
  // Of a real, symmetric sequence: F F x = n C x.
  const TestDevice& device = test_devices().front();
  const auto attention = make_attention(fnet(), Dtype::f64);
  Tensor x = random_tensor(Dtype::f64, {11, 8}, 4);
  const Tensor given = x.clone();
  for (int64_t j = 0; j < 11; ++j)
    for (int64_t c = 0; c < 8; ++c)
      x.data<double>()[j * 8 + c] = given.data<double>()[j * 8 + c] + given.data<double>()[(11 - j) % 11 * 8 + (8 - c) % 8];
  const Packing packing({11}, {0});
  Matrix twice(attention_output(*attention, device, attention_output(*attention, device, x, packing), packing));
  for (double& v : twice.values) v /= 88;
  CHECK(relative_error(twice, Matrix(x)) <= 1e-12);
}

TEST_CASE("fnet refuses dropout of probabilities and a grid shorter than the data", "[fnet]") {
  CHECK_THROWS_WITH(model_settings({"model.attention.type=fnet", "model.attention.dropout=0.1"}),
                    ContainsSubstring("model.attention.dropout") && ContainsSubstring("model.attention.type"));
  CHECK_THROWS_WITH(model_settings({"model.attention.fnet.max_length=0"}), ContainsSubstring("model.attention.fnet.max_length"));
  CHECK_THROWS_WITH(make_attention(fnet({"model.attention.fnet.mode=grid", "model.attention.fnet.max_length=299"}), Dtype::f64),
                    ContainsSubstring("model.attention.fnet.max_length") && ContainsSubstring("data.max_length"));
  const auto attention = make_attention(fnet({"model.attention.fnet.mode=grid"}), Dtype::f64);
  CHECK_THROWS_WITH(attention_output(*attention, test_devices().front(), Tensor::zeros(Dtype::f64, {301, 8}), Packing({301}, {0})),
                    ContainsSubstring("model.attention.fnet.max_length") && ContainsSubstring("data.max_length"));
}
