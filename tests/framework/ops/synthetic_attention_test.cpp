// SPDX-License-Identifier: Apache-2.0
// Attention over scores from tables and products of short rows against the dense formula.
#include "framework/ops/synthetic_attention.h"

#include <cmath>

#include "framework/core/random.h"
#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

constexpr int heads = 2, dim = 3, most = 9, inner = 4, outer = 3;

struct Parts {
  bool table, rows, product;
  bool causal = false;
};

// inputs: v, then those of the table, first, second, q, k that take part.
Matrix oracle(const std::vector<Matrix>& in, const Parts& parts, const Packing& packing, double dropout) {
  size_t at = 1;
  const Matrix& v = in[0];
  const Matrix* table = parts.table ? &in[at++] : nullptr;
  const Matrix* first = parts.rows ? &in[at++] : nullptr;
  const Matrix* second = parts.rows ? &in[at++] : nullptr;
  const Matrix* q = parts.product ? &in[at++] : nullptr;
  const Matrix* k = parts.product ? &in[at++] : nullptr;
  Matrix o(v.rows, v.columns);
  for (int b = 0; b < packing.sequences(); ++b)
    for (int h = 0; h < heads; ++h) {
      const Draw draw{random_key(7, "attention_dropout", "layer", 3 + h), packing.sample_ids()[static_cast<size_t>(b)], 3};
      const int row = packing.offsets()[static_cast<size_t>(b)], n = packing.length(b);
      for (int i = 0; i < n; ++i) {
        std::vector<double> w;
        double sum = 0;
        for (int j = 0; j < (parts.causal ? i + 1 : n); ++j) {
          double s = table ? (*table)(h * most + i, j) : 0;
          if (first) s += (*first)(row + i, h * inner + j % inner) * (*second)(row + i, h * outer + j / inner);
          for (int d = 0; d < dim && q; ++d) s += 0.4 * (*q)(row + i, h * dim + d) * (*k)(row + j, h * dim + d);
          sum += w.emplace_back(std::exp(s));
        }
        for (int j = 0; j < (parts.causal ? i + 1 : n); ++j) {
          const bool kept = draw.word(static_cast<uint32_t>(i), static_cast<uint32_t>(j)) >= dropout_threshold(dropout);
          for (int d = 0; d < dim && kept; ++d)
            o(row + i, h * dim + d) += w[static_cast<size_t>(j)] / sum / (1 - dropout) * v(row + j, h * dim + d);
        }
      }
    }
  return o;
}

}  // namespace

TEST_CASE("synthetic attention equals the dense formula and differences", "[synthetic_attention]") {
  const auto parts = GENERATE(Parts{true, false, false}, Parts{false, true, false}, Parts{true, true, true}, Parts{false, true, true},
                              Parts{true, false, false, true}, Parts{true, true, true, true});
  const auto dropout = GENERATE(0.0, 0.3);
  const Packing packing({5, 1, 0, 9}, {4, 5, 6, 7});
  const int64_t t = packing.rows();
  OpCase c;
  c.mode = Mode::train;
  c.inputs = {random_tensor(Dtype::f64, {t, heads * dim}, 1)};
  if (parts.table) c.inputs.push_back(random_tensor(Dtype::f64, {heads * most, most}, 2));
  if (parts.rows) {
    c.inputs.push_back(random_tensor(Dtype::f64, {t, heads * inner}, 3));
    c.inputs.push_back(random_tensor(Dtype::f64, {t, heads * outer}, 4));
  }
  if (parts.product)
    for (const uint32_t seed : {5u, 6u}) c.inputs.push_back(random_tensor(Dtype::f64, {t, heads * dim}, seed));
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    ops::SyntheticScores s;
    s.causal = parts.causal;
    size_t at = 1;
    if (parts.table) s.table = in[at++];
    if (parts.rows) s.first = in[at++], s.second = in[at++];
    if (parts.product) s.q = in[at++], s.k = in[at++];
    return ops::synthetic_attention(ctx, s, in[0], packing, {.heads = heads, .scale = 0.4, .dropout = dropout, .name = "layer", .first_head = 3});
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) { return oracle(in, parts, packing, dropout); };
  check_op(c);
}

TEST_CASE("synthetic attention refuses what does not fit", "[synthetic_attention]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  const Packing packing({5}, {0});
  const auto zeros = [](int64_t rows, int64_t columns) { return Variable{Tensor::zeros(Dtype::f64, {rows, columns}), no_node}; };
  const Variable v = zeros(5, 4);
  const ops::AttentionSettings two{.heads = 2};
  CHECK_THROWS_AS(ops::synthetic_attention(ctx, {}, v, packing, two), Error);
  CHECK_THROWS_AS(ops::synthetic_attention(ctx, {.table = zeros(8, 4)}, v, packing, two), Error);
  CHECK_THROWS_AS(ops::synthetic_attention(ctx, {.table = zeros(5, 5)}, v, packing, two), Error);
  CHECK_THROWS_AS(ops::synthetic_attention(ctx, {.first = zeros(5, 4), .second = zeros(5, 4)}, v, packing, two), Error);
  CHECK_THROWS_AS(ops::synthetic_attention(ctx, {.q = zeros(5, 4)}, v, packing, two), Error);
  ops::synthetic_attention(ctx, {.table = zeros(10, 5)}, v, packing, two);
}
