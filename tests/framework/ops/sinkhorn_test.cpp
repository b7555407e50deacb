// SPDX-License-Identifier: Apache-2.0
// Sinkhorn normalisation, best permutations, straight-through gradients and mixed blocks against their formulas.
#include "framework/ops/sinkhorn.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "framework/core/random.h"
#include "framework/kernels/sinkhorn.h"
#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

// exp(scores / temperature), rows and columns divided by their sums in turn.
Matrix normalised(const Matrix& scores, const Packing& blocks, int heads, double temperature, int iterations) {
  Matrix p(scores.rows, scores.columns);
  const int64_t width = scores.columns / heads;
  for (int b = 0; b < blocks.sequences(); ++b)
    for (int h = 0; h < heads; ++h) {
      const int64_t first = blocks.offsets()[static_cast<size_t>(b)], m = blocks.length(b), column = h * width;
      for (int64_t u = 0; u < m; ++u)
        for (int64_t v = 0; v < m; ++v) p(first + u, column + v) = std::exp(scores(first + u, column + v) / temperature);
      for (int k = 0; k < 2 * iterations; ++k)
        for (int64_t i = 0; i < m; ++i) {
          double sum = 0;
          for (int64_t j = 0; j < m; ++j) sum += k % 2 ? p(first + j, column + i) : p(first + i, column + j);
          for (int64_t j = 0; j < m; ++j) (k % 2 ? p(first + j, column + i) : p(first + i, column + j)) /= sum;
        }
    }
  return p;
}

// sorted_blocks by its formula; slots without weight are 0.
Matrix mixed(const Matrix& p, const Matrix& x, const Packing& sequences, const Packing& blocks, const ops::SortedBlocksSettings& s) {
  std::vector<std::vector<double>> rows;
  const int64_t width = p.columns / s.heads, dim = s.columns / s.heads;
  for (int b = 0; b < sequences.sequences(); ++b) {
    const int64_t first = sequences.offsets()[static_cast<size_t>(b)], n = sequences.length(b), m = blocks.length(b);
    for (int64_t u = 0; u < (s.most ? std::min<int64_t>(s.most, m) : m); ++u)
      for (int64_t t = 0; t < s.block; ++t) {
        rows.emplace_back();
        for (int64_t c = 0; c < s.columns; ++c) {
          double sum = 0, weight = 0;
          for (int64_t v = 0; v < m; ++v)
            if (v * s.block + t < n) {
              const double w = p(blocks.offsets()[static_cast<size_t>(b)] + u, c / dim * width + v);
              weight += w;
              sum += w * x(first + v * s.block + t, s.first_column + c);
            }
          rows.back().push_back(weight != 0 ? sum / weight : 0);
        }
      }
    for (int64_t i = 0; i < n && s.own; ++i) {
      rows.emplace_back();
      for (int64_t c = 0; c < s.columns; ++c) rows.back().push_back(x(first + i, s.first_column + c));
    }
  }
  Matrix out(static_cast<int64_t>(rows.size()), s.columns);
  for (int64_t r = 0; r < out.rows; ++r)
    for (int64_t c = 0; c < s.columns; ++c) out(r, c) = rows[static_cast<size_t>(r)][static_cast<size_t>(c)];
  return out;
}

}  // namespace

TEST_CASE("sinkhorn equals repeated division, its gradient differences through all steps", "[sinkhorn]") {
  const auto iterations = GENERATE(1, 2, 8);
  const auto temperature = GENERATE(0.75, 2.0);
  const Packing blocks({3, 1, 0, 5, 2}, {0, 1, 2, 3, 4});
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {11, 12}, 1)};
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    return ops::sinkhorn(ctx, in[0], {}, blocks, {2, temperature, iterations});
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) { return normalised(in[0], blocks, 2, temperature, iterations); };
  c.cancellation = 4;
  check_op(c);
}

TEST_CASE("causal sinkhorn is a softmax over the blocks before each", "[sinkhorn]") {
  const Packing blocks({3, 1, 0, 5, 2}, {0, 1, 2, 3, 4});
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {11, 12}, 1)};
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    return ops::sinkhorn(ctx, in[0], {}, blocks, {2, 0.75, 3, true});
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) {
    Matrix p(11, 12);
    for (int64_t r = 0; r < 11; ++r)
      for (int64_t column : {0, 6}) {
        double sum = 0;
        const int32_t before = blocks.positions()[static_cast<size_t>(r)];
        for (int64_t v = 0; v < before; ++v) sum += p(r, column + v) = std::exp(in[0](r, column + v) / 0.75);
        for (int64_t v = 0; v < before; ++v) p(r, column + v) /= sum;
      }
    return p;
  };
  check_op(c);
}

TEST_CASE("columns sum to 1 and rows nearer and nearer to 1, at low temperatures too", "[sinkhorn]") {
  const Packing blocks({8}, {0});
  for (const TestDevice& device : test_devices()) {
    Context ctx = test_context(device, nullptr);
    const auto row_error = [&](double temperature, int iterations) {
      Tensor scores = random_tensor(Dtype::f64, {8, 8}, 5);
      for (double& s : scores.span<double>()) s = std::clamp(2 * s, -5.0, 5.0);
      const Matrix p(ops::sinkhorn(ctx, {scores.converted(device.dtype)}, {}, blocks, {1, temperature, iterations}).value);
      double worst = 0;
      for (int64_t i = 0; i < 8; ++i) {
        double row = 0, column = 0;
        for (int64_t j = 0; j < 8; ++j) row += p(i, j), column += p(j, i);
        CHECK(std::abs(column - 1) <= 1e-5);
        worst = std::max(worst, std::abs(row - 1));
      }
      return worst;
    };
    CHECK(row_error(2, 8) < row_error(2, 2));
    CHECK(row_error(2, 50) <= 1e-5);
    CHECK(row_error(0.04, 3000) <= 1e-3);  // exp(5 / 0.04) overflows in float
  }
}

TEST_CASE("best_assignment is the best of all permutations", "[sinkhorn]") {
  for (const int n : {0, 1, 2, 3, 5, 7})
    for (uint32_t seed = 1; seed <= 20; ++seed) {
      const Tensor scores = random_tensor(Dtype::f64, {std::max(n, 1), std::max(n, 1)}, seed, seed % 3 ? 1 : 100);
      const std::span<const double> s(scores.data<double>(), static_cast<size_t>(n * n));
      std::vector<int32_t> order(static_cast<size_t>(n)), best;
      std::iota(order.begin(), order.end(), 0);
      double most = -1e300;
      do {
        double sum = 0;
        for (int u = 0; u < n; ++u) sum += s[static_cast<size_t>(u * n + order[static_cast<size_t>(u)])];
        if (sum > most) most = sum, best = order;
      } while (std::next_permutation(order.begin(), order.end()));
      CHECK(best_assignment(s, n) == best);
    }
  std::vector<double> broken(16, NAN);
  broken[5] = INFINITY;
  std::vector<int32_t> p = best_assignment(broken, 4);
  std::sort(p.begin(), p.end());
  CHECK(p == std::vector<int32_t>{0, 1, 2, 3});
}

TEST_CASE("permutations have the value of 0 and 1 and the gradient of the soft matrix", "[sinkhorn]") {
  const Packing blocks({3, 4}, {0, 1});
  for (const TestDevice& device : test_devices()) {
    const Tensor scores = random_tensor(device.dtype, {7, 8}, 2), seed = random_tensor(device.dtype, {7, 8}, 3);
    const auto run = [&](bool hard, Tensor& value) {
      Tape tape(device.on);
      Context ctx = test_context(device, &tape);
      Tensor d;
      const Variable s{scores, tape.record("scores", [&](Tape&, const Tensor& g) { d = g.clone(); })};
      const Tensor permutations = hard ? ops::best_permutations(ctx, scores, {}, blocks, 2) : Tensor();
      const Variable p = ops::sinkhorn(ctx, s, {}, blocks, {2, 0.75, 5}, permutations);
      value = p.value;
      const int all = tape.record("sum", [&](Tape& t, const Tensor&) { t.add_gradient(p.node, seed); });
      tape.backward({Tensor::zeros(device.dtype, {1}), all});
      return Matrix(d);
    };
    Tensor soft, hard;
    CHECK(relative_error(run(true, hard), run(false, soft)) == 0);
    const Matrix h(hard), s(soft);
    for (int64_t r = 0; r < 7; ++r)
      for (const int64_t head : {0, 1}) {
        double sum = 0;
        for (int64_t v = 0; v < 4; ++v) {
          CHECK((h(r, head * 4 + v) == 0 || h(r, head * 4 + v) == 1));
          sum += h(r, head * 4 + v);
        }
        CHECK(sum == 1);
      }
    CHECK(relative_error(h, s) > 0.01);
  }
}

TEST_CASE("mixed blocks equal their formula and differences", "[sinkhorn]") {
  const auto block = GENERATE(1, 3, 4);
  const auto most = GENERATE(0, 1, 2);
  const bool own = GENERATE(true, false);
  const Packing sequences({8, 1, 0, 5, 12}, {0, 1, 2, 3, 4});
  std::vector<int32_t> counts;
  for (int b = 0; b < sequences.sequences(); ++b) counts.push_back((sequences.length(b) + block - 1) / block);
  const Packing blocks(counts, {0, 1, 2, 3, 4});
  const ops::SortedBlocksSettings s{.heads = 2, .block = block, .most = most, .own = own, .first_column = 3, .columns = 6};
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {blocks.rows(), 2 * blocks.longest()}, 1, 0.125, 1), random_tensor(Dtype::f64, {sequences.rows(), 10}, 2)};
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    return ops::sorted_blocks(ctx, in[0], in[1], sequences, blocks, s).rows;
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) { return mixed(in[0], in[1], sequences, blocks, s); };
  c.entries = 25;
  c.cancellation = 4;
  check_op(c);
}

TEST_CASE("blocks mixed by a permutation have gradients for all of the matrix", "[sinkhorn]") {
  const Packing sequences({8, 12}, {0, 1}), blocks({2, 3}, {0, 1});
  const ops::SortedBlocksSettings s{.block = 4, .columns = 3};
  OpCase c;
  c.inputs = {Tensor::of<double>({0, 1, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0}).reshaped({5, 3}), random_tensor(Dtype::f64, {20, 3}, 2)};
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    return ops::sorted_blocks(ctx, in[0], in[1], sequences, blocks, s).rows;
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) { return mixed(in[0], in[1], sequences, blocks, s); };
  check_op(c);
}

TEST_CASE("slots without weight are empty and get no gradient", "[sinkhorn]") {
  // Two blocks of 4 rows, the second with 2: the sorted block that is it has two empty slots.
  const Packing sequences({6}, {0}), blocks({2}, {0});
  for (const TestDevice& device : test_devices()) {
    Tape tape(device.on);
    Context ctx = test_context(device, &tape);
    Tensor dp, dx;
    const Variable p{Tensor::of<double>({0, 1, 1, 0}).reshaped({2, 2}).converted(device.dtype),
                     tape.record("p", [&](Tape&, const Tensor& g) { dp = g.clone(); })};
    const Variable x{random_tensor(device.dtype, {6, 3}, 1), tape.record("x", [&](Tape&, const Tensor& g) { dx = g.clone(); })};
    const ops::SortedBlocks y = ops::sorted_blocks(ctx, p, x, sequences, blocks, {.block = 4, .own = false, .columns = 3});
    CHECK(Matrix(y.weights).values == std::vector<double>{1, 0, 1, 1});
    const Matrix rows(y.rows.value), from(x.value);
    const int expected[] = {4, 5, -1, -1, 0, 1, 2, 3};
    for (int r = 0; r < 8; ++r)
      for (int c = 0; c < 3; ++c) CHECK(rows(r, c) == (expected[r] < 0 ? 0 : from(expected[r], c)));
    tape.backward(y.rows);
    CHECK(Matrix(dx).values == std::vector<double>(18, 1.0));
    for (const double d : Matrix(dp).values) CHECK(std::isfinite(d));
    CHECK(y.packing->rows() == 8);
  }
}

TEST_CASE("Gumbel noise is drawn in training by head, sample and blocks", "[sinkhorn]") {
  const std::vector<int32_t> lengths{2, 0, 21, 1};
  const std::vector<uint32_t> samples{7, 8, 9, 5};
  const Packing blocks(lengths, samples);
  constexpr int64_t width = 22;
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    const Context ctx = test_context(device, nullptr, Mode::train);
    const Matrix noise(ops::gumbel_noise(ctx, blocks, 2, width, 0.5, "layer", 4));
    int64_t r = 0;
    for (size_t b = 0; b < lengths.size(); ++b)
      for (int32_t u = 0; u < lengths[b]; ++u, ++r)
        for (int h = 0; h < 2; ++h)
          for (int32_t v = 0; v < width; ++v) {
            const Draw draw{random_key(7, "gumbel", "layer", 4 + h, 0), samples[b], 3};
            const double g = -0.5 * std::log(-std::log(draw.uniform(static_cast<uint32_t>(u), static_cast<uint32_t>(v))));
            const double expected = v < lengths[b] ? g : 0;
            CHECK(noise(r, h * width + v) == (device.dtype == Dtype::f32 ? static_cast<double>(static_cast<float>(expected)) : expected));
          }
    CHECK(r == noise.rows);
  }
  Context ctx = test_context(test_devices().front(), nullptr, Mode::train);
  CHECK_FALSE(ops::gumbel_noise(ctx, blocks, 2, 3, 0, "layer", 4).defined());
  ctx.mode = Mode::evaluate;
  CHECK_FALSE(ops::gumbel_noise(ctx, blocks, 2, 3, 1, "layer", 4).defined());
}

TEST_CASE("sorting ops refuse what does not fit", "[sinkhorn]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  const Packing sequences({6}, {0}), blocks({2}, {0});
  const Variable p{Tensor::zeros(Dtype::f64, {2, 2})}, x{Tensor::zeros(Dtype::f64, {6, 4})};
  CHECK_THROWS_AS(ops::sinkhorn(ctx, p, {}, blocks, {2, 1, 1}), Error);
  CHECK_THROWS_AS(ops::sinkhorn(ctx, p, {}, blocks, {1, 0, 1}), Error);
  CHECK_THROWS_AS(ops::sinkhorn(ctx, p, {}, blocks, {1, 1, 0}), Error);
  CHECK_THROWS_AS(ops::sorted_blocks(ctx, p, x, sequences, blocks, {.block = 2, .columns = 4}), Error);
  CHECK_THROWS_AS(ops::sorted_blocks(ctx, p, x, sequences, blocks, {.block = 3, .first_column = 1, .columns = 4}), Error);
}
