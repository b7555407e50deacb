// SPDX-License-Identifier: Apache-2.0
// Nystroemformer: lengths around the number of landmarks, the limit in which it is full attention, the convolution, and what it refuses.
#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

const std::string key = "model.attention.nystrom.";

AttentionCase nystrom(std::vector<std::string> overrides, const std::string& name = "nystrom") {
  overrides.push_back("model.attention.type=nystrom");
  AttentionCase c = attention_case(name, overrides);
  // Z has entries of both signs far above those of A.
  c.value_slack = 2;
  return c;
}

Matrix output(models::Attention& attention, const Tensor& x, const Packing& packing) {
  return Matrix(attention_output(attention, test_devices().front(), x, packing));
}

Parameter* convolution(models::Attention& attention) {
  nn::ModelState state;
  attention.visit(state);
  for (Parameter* p : state.parameters)
    if (p->name == "attention.convolution.weight") return p;
  return nullptr;
}

}  // namespace

TEST_CASE("landmarks keep what every attention keeps", "[nystrom]") {
  check_attention(nystrom({key + "landmarks=3", key + "kernel=5"}, "sequences above and below the landmarks"));
  check_attention(nystrom({key + "landmarks=1", key + "kernel=0", key + "iterations=2"}, "one landmark, no convolution"));
  check_attention(nystrom({key + "landmarks=64", key + "kernel=33", key + "iterations=1"}, "a tile of landmarks"));
  check_attention(nystrom({"model.dim=15", "model.attention.heads=3", key + "landmarks=4", key + "kernel=3"}, "heads of 5"));
}

TEST_CASE("sequences of at most as many rows as landmarks get full attention and the convolution", "[nystrom]") {
  const auto full = make_attention(attention_case("full", {"model.attention.type=full"}), Dtype::f64);
  const auto attention = make_attention(nystrom({key + "landmarks=7", key + "kernel=0"}), Dtype::f64);
  for (const int32_t n : {1, 6, 7, 8}) {
    const Tensor x = random_tensor(Dtype::f64, {n, 8}, 41);
    const double error = relative_error(output(*attention, x, Packing({n}, {0})), output(*full, x, Packing({n}, {0})));
    INFO(n << " rows: " << error);
    CHECK((error <= 1e-12) == (n <= 7));
  }
}

// Where the rows of each segment are equal, the means lose nothing, and with the exact pseudo-inverse F Z B V is full attention.
TEST_CASE("landmarks that stand for equal rows give full attention once the iteration has converged", "[nystrom]") {
  const auto full = make_attention(attention_case("full", {"model.attention.type=full"}), Dtype::f64);
  const Tensor seven = random_tensor(Dtype::f64, {7, 8}, 42), x(Dtype::f64, {21, 8});
  for (int64_t r = 0; r < 21; ++r) x.rows(r, 1).copy_from(seven.rows(r / 3, 1));
  const Packing packing({21}, {0});
  double error[2];
  for (const int i : {0, 1}) {
    const auto attention =
        make_attention(nystrom({key + "landmarks=7", key + "kernel=0", key + "iterations=" + (i ? "30" : "6")}), Dtype::f64);
    error[i] = relative_error(output(*attention, x, packing), output(*full, x, packing));
  }
  INFO(error[0] << " after 6 iterations, " << error[1] << " after 30");
  CHECK(error[1] <= 1e-10);
  CHECK(error[0] > 1e-6);
}

TEST_CASE("the convolution has one kernel for each head and ends with the sequence", "[nystrom]") {
  const auto attention = make_attention(nystrom({key + "landmarks=3", key + "kernel=5"}), Dtype::f64);
  const auto without = make_attention(nystrom({key + "landmarks=3", key + "kernel=0"}), Dtype::f64);
  REQUIRE(convolution(*attention)->value.shape() == Shape{2, 5});
  CHECK(convolution(*without) == nullptr);
  for (const double w : convolution(*attention)->value.span<double>()) CHECK(std::abs(w) <= 1 / std::sqrt(5.0));
  const Tensor x = random_tensor(Dtype::f64, {11, 8}, 43);
  const Packing packing({2, 9}, {0, 1});
  CHECK(relative_error(output(*attention, x, packing), output(*without, x, packing)) > 1e-3);
  convolution(*attention)->value.fill_zero();
  CHECK(relative_error(output(*attention, x, packing), output(*without, x, packing)) <= 1e-14);
}

TEST_CASE("shown weights of landmarks keep a vector of ones", "[nystrom]") {
  const auto attention = make_attention(nystrom({key + "landmarks=4", key + "kernel=3"}), Dtype::f64);
  const Tensor x = random_tensor(Dtype::f64, {10, 8}, 44);
  Context context{.on = test_devices().front().on, .dtype = Dtype::f64};
  const Matrix w(attention->weights(context, {x, no_node}, Packing({10}, {0}), {}));
  REQUIRE(w.rows == 20);
  // Without its convolution a row's weights sum to almost 1: F, Z and B keep a vector of ones as far as Z is the inverse.
  Parameter& kernels = *convolution(*attention);
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t i = 1; i < 9; ++i) {
      double sum = 0, of_kernel = 0;
      for (int64_t j = 0; j < 10; ++j) sum += w(h * 10 + i, j);
      for (int64_t t = 0; t < 3; ++t) of_kernel += kernels.value.data<double>()[h * 3 + t];
      CHECK(std::abs(sum - of_kernel - 1) <= 0.1);
    }
}

TEST_CASE("landmarks refuse dropout and even kernels", "[nystrom]") {
  CHECK_THROWS_WITH(nystrom({"model.attention.dropout=0.1"}), Catch::Matchers::ContainsSubstring("model.attention.dropout") &&
                                                                  Catch::Matchers::ContainsSubstring("model.attention.type"));
  CHECK_THROWS_WITH(nystrom({key + "kernel=4"}),
                    Catch::Matchers::ContainsSubstring(key + "kernel") && Catch::Matchers::ContainsSubstring("odd"));
}

TEST_CASE("cost and pairs of landmarks", "[nystrom]") {
  const auto attention = make_attention(nystrom({key + "landmarks=5", key + "kernel=3", key + "iterations=2"}), Dtype::f64);
  const models::AttentionCost shorter = attention->cost({5}), longer = attention->cost({10});
  CHECK(shorter.forward_flops == 2 * (4.0 * 25 * 4 + 2 * 5 * 3 * 4));
  CHECK(longer.forward_flops == 2 * (8.0 * 10 * 5 * 4 + 8 * 2 * 125 + 4 * 25 * 4 + 2 * 10 * 3 * 4));
  CHECK(longer.backward_flops == 2 * (20.0 * 10 * 5 * 4 + 16 * 2 * 125 + 8 * 25 * 4 + 4 * 10 * 3 * 4));
  CHECK(attention->pairs(10) == 50);
  CHECK(attention->pairs(4) == 16);
}
