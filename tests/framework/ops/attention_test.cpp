// SPDX-License-Identifier: Apache-2.0
// Softmax attention against a dense oracle written from a predicate allowed(query, key), never from the plan.
#include "framework/ops/attention.h"

#include <cmath>
#include <limits>

#include "framework/core/random.h"
#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

enum class Structure { full, band, blocked, holes };

bool allowed(Structure s, int i, int j) {
  switch (s) {
    case Structure::full:
      return true;
    case Structure::band:
      return j - i <= 5 && i - j <= 70;
    case Structure::blocked:
      return std::abs(i / 7 - j / 7) <= 1;
    case Structure::holes:
      return i % 5 != 3 && j >= i;  // every fifth query has no key
  }
  return false;
}

TilePlan plan_of(Structure s, int32_t n) {
  if (s == Structure::full) return full_plan(n, n);
  std::vector<int32_t> first, end;
  for (int32_t i = 0; i < n; ++i) {
    if (s == Structure::band) first.push_back(i - 70), end.push_back(i + 6);
    if (s == Structure::blocked) first.push_back((i / 7 - 1) * 7), end.push_back((i / 7 + 2) * 7);
    if (s == Structure::holes) first.push_back(i), end.push_back(i % 5 == 3 ? i : n);
  }
  return interval_plan(n, first, end);
}

struct Plans {
  ops::AttentionPart list;
  Plans(Structure s, const Packing& packing) {
    for (int b = 0; b < packing.sequences(); ++b) list.push_back(std::make_shared<TilePlan>(plan_of(s, packing.length(b))));
  }
};

struct Form {
  Structure structure;
  int heads, head_dim;
  double dropout;
};

// o_i = sum over allowed j of M_ij softmax_j(scale <q_i, k_j>) v_j.
Matrix oracle(const Form& f, const Packing& packing, const Matrix& q, const Matrix& k, const Matrix& v) {
  Matrix o(q.rows, q.columns);
  for (int b = 0; b < packing.sequences(); ++b)
    for (int h = 0; h < f.heads; ++h) {
      const int row = packing.offsets()[size_t(b)], column = h * f.head_dim, n = packing.length(b);
      const uint64_t key = random_key(7, "attention_dropout", "layer", h);
      for (int i = 0; i < n; ++i) {
        std::vector<double> weight(static_cast<size_t>(n));
        double sum = 0;
        for (int j = 0; j < n; ++j) {
          if (!allowed(f.structure, i, j)) continue;
          double dot = 0;
          for (int d = 0; d < f.head_dim; ++d) dot += q(row + i, column + d) * k(row + j, column + d);
          sum += weight[size_t(j)] = std::exp(0.3 * dot);
        }
        for (int j = 0; j < n; ++j) {
          if (weight[size_t(j)] == 0) continue;
          double factor = 1;
          if (f.dropout > 0) {
            const uint32_t word = philox({uint32_t(j / 4), uint32_t(i), packing.sample_ids()[size_t(b)], 3}, key)[size_t(j % 4)];
            factor = word < std::round(f.dropout * 4294967296.0) ? 0 : 1 / (1 - f.dropout);
          }
          for (int d = 0; d < f.head_dim; ++d) o(row + i, column + d) += factor * weight[size_t(j)] / sum * v(row + j, column + d);
        }
      }
    }
  return o;
}

ops::AttentionSettings settings(const Form& f) { return {f.heads, 0.3, f.dropout, "layer"}; }

OpCase attention_case(const Form& f, const Packing& packing, const Plans& plans) {
  OpCase c;
  c.mode = Mode::train;
  const Shape shape{packing.rows(), f.heads * f.head_dim};
  for (uint32_t i = 1; i <= 3; ++i) c.inputs.push_back(random_tensor(Dtype::f64, shape, i));
  c.op = [&f, &packing, &plans](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    return ops::attention(ctx, in[0], in[1], in[2], packing, plans.list, settings(f));
  };
  c.oracle = [&f, &packing](const std::vector<Matrix>& in, const std::vector<Matrix>&) { return oracle(f, packing, in[0], in[1], in[2]); };
  return c;
}

Matrix columns(const Matrix& x, int64_t first, int64_t count) {
  Matrix y(x.rows, count);
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t c = 0; c < count; ++c) y(r, c) = x(r, first + c);
  return y;
}

}  // namespace

TEST_CASE("attention of short sequences equals the dense formula and differences", "[attention]") {
  const auto structure = GENERATE(Structure::full, Structure::band, Structure::blocked, Structure::holes);
  const auto dropout = GENERATE(0.0, 0.3);
  const auto head_dim = GENERATE(1, 5, 7, 16);
  const Form f{structure, head_dim == 16 ? 1 : 2, head_dim, dropout};
  INFO("structure " << static_cast<int>(structure) << " head_dim " << head_dim << " dropout " << dropout);
  const Packing packing({0, 1, 2, 9, 0, 17}, {5, 6, 7, 8, 9, 4294967294u});
  const Plans plans(structure, packing);
  check_op(attention_case(f, packing, plans));
}

TEST_CASE("attention over several tiles equals the dense formula and differences", "[attention]") {
  const auto structure = GENERATE(Structure::full, Structure::band, Structure::blocked, Structure::holes);
  const auto dropout = GENERATE(0.0, 0.3);
  const Form f{structure, 2, 5, dropout};
  INFO("structure " << static_cast<int>(structure) << " dropout " << dropout);
  const Packing packing({63, 129, 0, 64, 1, 65, 2}, {1, 2, 3, 4, 5, 6, 7});
  const Plans plans(structure, packing);
  OpCase c = attention_case(f, packing, plans);
  c.entries = 6;
  check_op(c);
}

TEST_CASE("attention on one array of q, k and v equals attention on three", "[attention]") {
  const Form f{Structure::band, 2, 3, 0.2};
  const Packing packing({4, 66}, {1, 2});
  const Plans plans(f.structure, packing);
  OpCase c;
  c.mode = Mode::train;
  c.inputs = {random_tensor(Dtype::f64, {70, 18}, 1)};
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    return ops::attention(ctx, in[0], packing, plans.list, settings(f));
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) {
    return oracle(f, packing, columns(in[0], 0, 6), columns(in[0], 6, 6), columns(in[0], 12, 6));
  };
  check_op(c);
}

TEST_CASE("one variable as q, k and v gets the sum of their gradients", "[attention]") {
  const Form f{Structure::full, 1, 4, 0};
  const Packing packing({6}, {1});
  const Plans plans(f.structure, packing);
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {6, 4}, 1)};
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    return ops::attention(ctx, in[0], in[0], in[0], packing, plans.list, settings(f));
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) { return oracle(f, packing, in[0], in[0], in[0]); };
  check_op(c);
}

namespace {

// o and the gradient of sum(o^2 / 2) for qkv, of the rows [first, first + count).
std::pair<std::vector<double>, std::vector<double>> rows_of(const TestDevice& device, const Form& f, const Packing& packing,
                                                            const Tensor& qkv, int64_t first, int64_t count) {
  Tape tape(device.on);
  Context ctx = test_context(device, &tape, Mode::train);
  const Plans plans(f.structure, packing);
  Matrix gradient;
  const Variable x{qkv, tape.record("qkv", [&](Tape&, const Tensor& g) { gradient = Matrix(g.rows(first, count)); })};
  const Variable o = ops::attention(ctx, x, packing, plans.list, settings(f));
  const Variable sum{Tensor::zeros(device.dtype, {1}),
                     tape.record("sum", [&](Tape& t, const Tensor&) { t.add_gradient(o.node, o.value); })};
  tape.backward(sum);
  return {Matrix(o.value.rows(first, count)).values, gradient.values};
}

}  // namespace

TEST_CASE("what other sequences hold, NaN included, changes no byte", "[attention]") {
  for (const TestDevice& device : test_devices())
    for (const Structure s : {Structure::full, Structure::band, Structure::holes}) {
      INFO(device.name << " structure " << static_cast<int>(s));
      const Form f{s, 2, 4, 0.2};
      const Tensor mine = random_tensor(device.dtype, {67, 24}, 1);
      const auto alone = rows_of(device, f, Packing({67}, {9}), mine, 0, 67);
      for (const double filling : {1e30, std::numeric_limits<double>::quiet_NaN()}) {
        Tensor all(Dtype::f64, {70 + 67 + 5, 24});
        std::ranges::fill(all.span<double>(), filling);
        all = all.converted(device.dtype);
        all.rows(70, 67).copy_from(mine);
        CHECK(rows_of(device, f, Packing({70, 67, 5}, {1, 9, 2}), all, 70, 67) == alone);
      }
    }
}

TEST_CASE("a query without keys gives 0 and finite gradients", "[attention]") {
  const Form f{Structure::holes, 1, 4, 0};
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    const auto [o, gradient] = rows_of(device, f, Packing({9}, {0}), random_tensor(device.dtype, {9, 12}, 1), 0, 9);
    for (size_t d = 0; d < 4; ++d) CHECK(o[3 * 4 + d] == 0);
    CHECK(std::ranges::all_of(gradient, [](double g) { return std::isfinite(g); }));
    for (size_t d = 0; d < 4; ++d) CHECK(gradient[3 * 12 + d] == 0);
  }
}

TEST_CASE("large scores do not overflow", "[attention]") {
  const Form f{Structure::full, 1, 2, 0};
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    Tensor qkv = random_tensor(device.dtype, {5, 6}, 1, 100);
    const auto [o, gradient] = rows_of(device, f, Packing({5}, {0}), qkv, 0, 5);
    CHECK(std::ranges::all_of(o, [](double v) { return std::isfinite(v); }));
    CHECK(std::ranges::all_of(gradient, [](double v) { return std::isfinite(v); }));
  }
}

TEST_CASE("attention refuses plans, heads and shapes that do not fit", "[attention]") {
  using Catch::Matchers::ContainsSubstring;
  Context ctx = test_context(test_devices().front(), nullptr);
  const Packing packing({3, 2}, {0, 1});
  const Plans plans(Structure::full, packing), swapped(Structure::full, Packing({2, 3}, {0, 1}));
  const Variable x{Tensor::zeros(Dtype::f64, {5, 6})};
  CHECK_THROWS_WITH(ops::attention(ctx, x, x, x, packing, {plans.list.front()}, {1, 1, 0, "a"}), ContainsSubstring("1 plans for 2"));
  CHECK_THROWS_WITH(ops::attention(ctx, x, x, x, packing, swapped.list, {1, 1, 0, "a"}), ContainsSubstring("sequence 0"));
  CHECK_THROWS_WITH(ops::attention(ctx, x, x, x, packing, plans.list, {4, 1, 0, "a"}), ContainsSubstring("4 heads"));
  CHECK_THROWS_WITH(ops::attention(ctx, x, {Tensor::zeros(Dtype::f64, {5, 3})}, x, packing, plans.list, {1, 1, 0, "a"}),
                    ContainsSubstring("k is"));
  CHECK_THROWS_WITH(ops::attention(ctx, {Tensor::zeros(Dtype::f64, {5, 4})}, packing, plans.list, {1, 1, 0, "a"}),
                    ContainsSubstring("three equal"));
  CHECK_THROWS_WITH(ops::attention(ctx, {Tensor::zeros(Dtype::f64, {4, 6})}, packing, plans.list, {1, 1, 0, "a"}),
                    ContainsSubstring("4 rows"));
}
