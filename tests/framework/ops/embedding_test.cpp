// SPDX-License-Identifier: Apache-2.0
// Embeddings and positions against their formulas.
#include "framework/ops/embedding.h"

#include <cmath>

#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

TEST_CASE("embedding rows are those of the table, and repeated tokens add up", "[embedding]") {
  const auto columns = GENERATE(1, 7);
  const std::vector<int32_t> tokens = GENERATE(std::vector<int32_t>{}, std::vector<int32_t>{4}, std::vector<int32_t>{0, 4, 2, 2, 0, 2});
  OpCase c;
  c.parameters = {random_tensor(Dtype::f64, {5, columns}, 1)};
  c.op = [&](Context& ctx, const std::vector<Variable>&, std::vector<Parameter>& p) {
    return ops::embedding(ctx, Tensor::of(tokens), p[0]);
  };
  c.oracle = [&](const std::vector<Matrix>&, const std::vector<Matrix>& p) {
    Matrix y(static_cast<int64_t>(tokens.size()), columns);
    for (int64_t r = 0; r < y.rows; ++r)
      for (int64_t k = 0; k < columns; ++k) y(r, k) = p[0](tokens[static_cast<size_t>(r)], k);
    return y;
  };
  check_op(c);
}

TEST_CASE("learned positions start again in each sequence", "[embedding]") {
  const Packing packing({2, 0, 4, 1}, {0, 1, 2, 3});
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {7, 3}, 1)};
  c.parameters = {random_tensor(Dtype::f64, {4, 3}, 2)};
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>& p) {
    return ops::add_learned_positions(ctx, in[0], p[0], packing);
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>& p) {
    Matrix y = in[0];
    const int places[] = {0, 1, 0, 1, 2, 3, 0};
    for (int r = 0; r < 7; ++r)
      for (int k = 0; k < 3; ++k) y(r, k) += p[0](places[r], k);
    return y;
  };
  check_op(c);
}

TEST_CASE("sinusoidal positions equal their formula", "[embedding]") {
  const auto columns = GENERATE(1, 2, 7, 12);
  const Packing packing({3000, 0, 5}, {0, 1, 2});
  OpCase c;
  c.entries = 4;
  c.inputs = {random_tensor(Dtype::f64, {3005, columns}, 1)};
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    return ops::add_sinusoidal_positions(ctx, in[0], packing);
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) {
    Matrix y = in[0];
    for (int64_t r = 0; r < y.rows; ++r)
      for (int64_t k = 0; k < columns; ++k) {
        const double angle = double(r < 3000 ? r : r - 3000) / std::pow(10000.0, double(k / 2 * 2) / double(columns));
        y(r, k) += k % 2 ? std::cos(angle) : std::sin(angle);
      }
    return y;
  };
  check_op(c);
}

TEST_CASE("a kept table of sinusoids serves shorter sequences, and gives every length the same bytes", "[embedding]") {
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    Context ctx = test_context(device, nullptr);
    ops::Sinusoids kept;
    for (const int32_t length : {5, 3, 100, 64, 101, 1000}) {
      const Packing packing({length, 2}, {0, 1});
      const Variable x{random_tensor(Dtype::f64, {length + 2, 6}, 1).converted(device.dtype)};
      CHECK(Matrix(ops::add_sinusoidal_positions(ctx, x, packing, kept).value).values ==
            Matrix(ops::add_sinusoidal_positions(ctx, x, packing).value).values);
    }
    const std::byte* const made = kept.table(ctx.dtype, 1024, 6).raw();
    CHECK(kept.table(ctx.dtype, 10, 6).raw() == made);
    CHECK(kept.table(ctx.dtype, 10, 7).shape()[1] == 7);
    const Dtype other = ctx.dtype == Dtype::f32 ? Dtype::f64 : Dtype::f32;
    CHECK(kept.table(other, 10, 7).dtype() == other);
  }
}

TEST_CASE("tokens and positions outside their tables are data errors that name them", "[embedding]") {
  using Catch::Matchers::ContainsSubstring;
  Context ctx = test_context(test_devices().front(), nullptr);
  Parameter table{"embedding.weight", Tensor::zeros(Dtype::f64, {5, 2}), {}, true};
  CHECK_THROWS_WITH(ops::embedding(ctx, Tensor::of<int32_t>({0, 5}), table),
                    ContainsSubstring("token 5 at row 1") && ContainsSubstring("5 rows"));
  CHECK_THROWS_WITH(ops::embedding(ctx, Tensor::of<int32_t>({-1}), table), ContainsSubstring("token -1"));
  CHECK_THROWS_AS(ops::embedding(ctx, Tensor::of<int64_t>({0}), table), Error);
  const Packing long_one({6}, {0}), short_one({2}, {0});
  CHECK_THROWS_WITH(ops::add_learned_positions(ctx, {Tensor::zeros(Dtype::f64, {6, 2})}, table, long_one),
                    ContainsSubstring("6 rows") && ContainsSubstring("5 positions"));
  CHECK_THROWS_WITH(ops::add_sinusoidal_positions(ctx, {Tensor::zeros(Dtype::f64, {6, 2})}, short_one), ContainsSubstring("packing"));
  try {
    ops::embedding(ctx, Tensor::of<int32_t>({9}), table);
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::data);
  }
}
