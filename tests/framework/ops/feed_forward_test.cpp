// SPDX-License-Identifier: Apache-2.0
// The feed-forward half-layer, fused and composed.
#include "framework/ops/feed_forward.h"

#include "framework/ops/add.h"
#include "framework/ops/dropout.h"
#include "framework/ops/layer_norm.h"
#include "tests/framework/ops/op_check.h"
#include "tests/framework/ops/oracles.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

struct Form {
  int64_t rows, columns, hidden;
  bool norm, bias, own_residual;  // own_residual: x itself
  double dropout;
  Activation activation;
};
const std::vector<Form> forms = {
    Form{1, 1, 1, true, true, true, 0, Activation::gelu},       Form{0, 4, 8, true, true, true, 0, Activation::gelu},
    Form{6, 5, 9, true, true, true, 0.3, Activation::gelu},     Form{6, 5, 9, true, true, false, 0.3, Activation::gelu_tanh},
    Form{5, 4, 7, false, true, true, 0, Activation::relu},      Form{5, 4, 7, false, false, false, 0.3, Activation::relu},
    Form{65, 16, 32, true, false, true, 0.1, Activation::gelu}, Form{3, 8, 3, true, true, true, 0, Activation::none},
};
// The places of the parameters in an OpCase.
enum { gain, shift, up, down, up_bias, down_bias };

ops::FeedForwardParameters fused(const Form& f, Context& ctx, const Packing& packing, const ops::NormParameters* norm,
                                 std::vector<Parameter>& p) {
  return {f.norm ? norm : nullptr,
          &p[up],
          f.bias ? &p[up_bias] : nullptr,
          &p[down],
          f.bias ? &p[down_bias] : nullptr,
          f.activation,
          ctx.dropout(f.dropout, "dropout", "in", packing),
          ctx.dropout(f.dropout, "dropout", "out", packing)};
}

Variable composed(Context& ctx, const ops::FeedForwardParameters& p, const Variable& x, const Variable& residual) {
  const Variable n = p.norm ? ops::layer_norm(ctx, x, *p.norm) : x;
  const Variable a = ops::dropout(ctx, ops::activation(ctx, p.activation, ops::linear(ctx, n, *p.up, p.up_bias)), p.dropout_in);
  return ops::add(ctx, residual, ops::dropout(ctx, ops::linear(ctx, a, *p.down, p.down_bias), p.dropout_out));
}

Matrix oracle(const Form& f, const Packing& packing, const std::vector<Matrix>& in, const std::vector<Matrix>& p) {
  const Matrix n = f.norm ? layer_norm_oracle(in[0], p[gain], p[shift], 1e-2) : in[0];
  Matrix a = activation_oracle(f.activation, linear_oracle(n, p[up], f.bias ? &p[up_bias] : nullptr));
  a = dropout_oracle(a, f.dropout, random_key(7, "dropout", "in"), 3, packing);
  Matrix y = linear_oracle(a, p[down], f.bias ? &p[down_bias] : nullptr);
  return sum_oracle(in[f.own_residual ? 0 : 1], dropout_oracle(y, f.dropout, random_key(7, "dropout", "out"), 3, packing));
}

}  // namespace

TEST_CASE("feed_forward, fused and composed, equals its formula and differences", "[feed_forward]") {
  const Form f = GENERATE(from_range(forms));
  const bool is_fused = GENERATE(true, false);
  INFO(f.rows << " x " << f.columns << " x " << f.hidden << (is_fused ? " fused" : " composed"));
  const Packing packing({static_cast<int32_t>(f.rows)}, {3});
  OpCase c;
  c.mode = Mode::train;
  c.entries = 24;
  c.inputs = {random_tensor(Dtype::f64, {f.rows, f.columns}, 1)};
  if (!f.own_residual) c.inputs.push_back(random_tensor(Dtype::f64, {f.rows, f.columns}, 2));
  c.parameters = {random_tensor(Dtype::f64, {f.columns}, 3),
                  random_tensor(Dtype::f64, {f.columns}, 4),
                  random_tensor(Dtype::f64, {f.hidden, f.columns}, 5, 0.5),
                  random_tensor(Dtype::f64, {f.columns, f.hidden}, 6, 0.5),
                  random_tensor(Dtype::f64, {f.hidden}, 7),
                  random_tensor(Dtype::f64, {f.columns}, 8)};
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>& p) {
    const ops::NormParameters norm{&p[gain], &p[shift], 1e-2};
    const ops::FeedForwardParameters parameters = fused(f, ctx, packing, &norm, p);
    const Variable& residual = in[f.own_residual ? 0 : 1];
    return is_fused ? ops::feed_forward(ctx, parameters, in[0], residual) : composed(ctx, parameters, in[0], residual);
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>& p) { return oracle(f, packing, in, p); };
  check_op(c);
}

TEST_CASE("feed_forward refuses a down projection that does not fit", "[feed_forward]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  Parameter u{"up", Tensor::zeros(Dtype::f64, {8, 4}), {}, true}, d{"down", Tensor::zeros(Dtype::f64, {8, 4}), {}, true};
  const Variable x{Tensor::zeros(Dtype::f64, {2, 4})};
  const ops::FeedForwardParameters p{nullptr, &u, nullptr, &d, nullptr, Activation::relu, {}, {}};
  CHECK_THROWS_WITH(ops::feed_forward(ctx, p, x, x),
                    Catch::Matchers::ContainsSubstring("down") && Catch::Matchers::ContainsSubstring("[4, 8]"));
  CHECK_THROWS_WITH(ops::feed_forward(ctx, p, x, {Tensor::zeros(Dtype::f64, {3, 4})}), Catch::Matchers::ContainsSubstring("residual"));
}
