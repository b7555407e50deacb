// SPDX-License-Identifier: Apache-2.0
// Linear attention: it has no probabilities to drop, its weights sum to almost one, and the order of keys does not matter.
#include <numeric>

#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

TEST_CASE("dropout of probabilities is refused and both keys are named", "[linear]") {
  try {
    model_settings({"model.attention.type=linear", "model.attention.dropout=0.1"});
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::usage);
    CHECK(std::string(e.what()).find("model.attention.dropout") != std::string::npos);
    CHECK(std::string(e.what()).find("model.attention.type") != std::string::npos);
  }
}

TEST_CASE("the implied weights are positive and sum to one up to epsilon", "[linear]") {
  const auto attention = make_attention(attention_case("linear", {"model.attention.type=linear"}), Dtype::f64);
  models::DenseInput in{.n = 9, .head = 0, .head_dim = 4};
  for (const Matrix& m : {Matrix(random_tensor(Dtype::f64, {9, 4}, 1)), Matrix(random_tensor(Dtype::f64, {9, 4}, 2, 3, -8)), Matrix(9, 4)})
    in.projected.push_back(m.values);
  const std::vector<double> w = dynamic_cast<models::HeadAttention&>(*attention).group_of(0).dense_weights(in);
  REQUIRE(w.size() == 81);
  for (int i = 0; i < 9; ++i) {
    const double sum = std::accumulate(w.begin() + i * 9, w.begin() + (i + 1) * 9, 0.0);
    CHECK(sum <= 1);
    CHECK(sum > 0.5);
    for (int j = 0; j < 9; ++j) CHECK(w[static_cast<size_t>(i * 9 + j)] > 0);
  }
}
