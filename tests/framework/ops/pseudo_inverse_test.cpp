// SPDX-License-Identifier: Apache-2.0
// Pseudo-inverses against the formula of the iteration, its limit, and singular and zero matrices.
#include "framework/ops/pseudo_inverse.h"

#include <cmath>

#include "framework/core/parallel.h"
#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.rows, b.columns);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t k = 0; k < a.columns; ++k)
      for (int64_t j = 0; j < b.columns; ++j) c(i, j) += a(i, k) * b(k, j);
  return c;
}

// scale I - x
Matrix minus(double scale, const Matrix& x) {
  Matrix y(x.rows, x.columns);
  for (int64_t i = 0; i < x.rows; ++i)
    for (int64_t j = 0; j < x.columns; ++j) y(i, j) = (i == j ? scale : 0) - x(i, j);
  return y;
}

Matrix iterated(const Matrix& all, int iterations) {
  Matrix out(all.rows, all.columns);
  const int64_t m = all.columns;
  for (int64_t g = 0; g < all.rows / m; ++g) {
    Matrix a(m, m), z(m, m);
    double rows = 0, columns = 0;
    for (int64_t i = 0; i < m; ++i) {
      double row = 0, column = 0;
      for (int64_t j = 0; j < m; ++j) {
        a(i, j) = all(g * m + i, j);
        row += std::abs(all(g * m + i, j));
        column += std::abs(all(g * m + j, i));
      }
      rows = std::max(rows, row);
      columns = std::max(columns, column);
    }
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < m; ++j) z(i, j) = a(j, i) / (rows * columns);
    for (int t = 0; t < iterations; ++t) {
      const Matrix p = product(a, z);
      z = product(z, minus(13, product(p, minus(15, product(p, minus(7, p))))));
      for (double& v : z.values) v /= 4;
    }
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < m; ++j) out(g * m + i, j) = z(i, j);
  }
  return out;
}

// Rows that sum to one, as a softmax gives them.
Tensor stochastic(int64_t matrices, int64_t m, uint32_t seed) {
  const Tensor x = random_tensor(Dtype::f64, {matrices * m, m}, seed);
  for (int64_t r = 0; r < matrices * m; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < m; ++c) sum += x.data<double>()[r * m + c] = std::exp(x.data<double>()[r * m + c] + (r % m == c ? 3 : 0));
    // Exact in float, as all test inputs are.
    for (int64_t c = 0; c < m; ++c) x.data<double>()[r * m + c] = static_cast<float>(x.data<double>()[r * m + c] / sum);
  }
  return x;
}

}  // namespace

TEST_CASE("pseudo_inverse equals the iteration and its differences, those of the norms included", "[pseudo_inverse]") {
  const auto m = GENERATE(1, 2, 5, 17), iterations = GENERATE(0, 1, 3, 6);
  OpCase c;
  // Rows of equal sums would make the larger norm of a perturbed matrix a kink.
  c.inputs = {stochastic(3, m, 1)};
  for (int64_t r = 0; r < 3 * m; ++r)
    for (int64_t i = 0; i < m; ++i) {
      double& value = c.inputs[0].data<double>()[r * m + i];
      value = static_cast<float>(value * (1 + static_cast<double>(r) / 64));
    }
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    return ops::pseudo_inverse(ctx, in[0], iterations);
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) { return iterated(in[0], iterations); };
  c.cancellation = 30;  // the iteration subtracts multiples of the identity
  check_op(c);
}

TEST_CASE("pseudo_inverse takes matrices of both signs", "[pseudo_inverse]") {
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {8, 4}, 2)};
  c.op = [](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) { return ops::pseudo_inverse(ctx, in[0], 2); };
  c.oracle = [](const std::vector<Matrix>& in, const std::vector<Matrix>&) { return iterated(in[0], 2); };
  c.cancellation = 30;
  check_op(c);
}

TEST_CASE("enough iterations give the inverse, and what A Z A = A says of a singular matrix", "[pseudo_inverse]") {
  for (const TestDevice& device : test_devices()) {
    Context ctx = test_context(device, nullptr);
    Tensor a = stochastic(2, 70, 3);
    for (int64_t c = 0; c < 70; ++c) a.data<double>()[(70 + 4) * 70 + c] = a.data<double>()[(70 + 9) * 70 + c];  // two equal rows
    const Matrix z(ops::pseudo_inverse(ctx, {a.converted(device.dtype)}, 25).value), all(a);
    for (int64_t g = 0; g < 2; ++g) {
      Matrix own(70, 70), inverse(70, 70);
      std::copy_n(all.values.begin() + g * 4900, 4900, own.values.begin());
      std::copy_n(z.values.begin() + g * 4900, 4900, inverse.values.begin());
      INFO(device.name << " matrix " << g);
      CHECK(relative_error(product(product(own, inverse), own), own) <= (device.dtype == Dtype::f64 ? 1e-10 : 1e-4));
    }
  }
}

TEST_CASE("pseudo_inverse of zeros is zero, and one matrix does not touch the next", "[pseudo_inverse]") {
  for (const TestDevice& device : test_devices()) {
    Context ctx = test_context(device, nullptr);
    const Tensor one = stochastic(1, 6, 4);
    Tensor two = Tensor::zeros(Dtype::f64, {12, 6});
    two.rows(6, 6).copy_from(one);
    const Matrix alone(ops::pseudo_inverse(ctx, {one.converted(device.dtype)}, 6).value);
    const Matrix both(ops::pseudo_inverse(ctx, {two.converted(device.dtype)}, 6).value);
    for (size_t i = 0; i < 36; ++i) CHECK((both.values[i] == 0 && both.values[36 + i] == alone.values[i]));
  }
}

TEST_CASE("pseudo_inverse has the same bytes on any number of threads", "[pseudo_inverse]") {
  const Tensor a = stochastic(5, 33, 5).converted(Dtype::f32);
  std::vector<Tensor> bytes;
  for (const int threads : {1, 2, 8}) {
    ThreadPool pool(threads);
    Tape tape({Device::cpu, &pool});
    Context ctx{.on = {Device::cpu, &pool}, .tape = &tape, .dtype = Dtype::f32};
    Tensor da;
    const int node = tape.record("a", [&](Tape&, const Tensor& gradient) { da = gradient.clone(); });
    const Variable z = ops::pseudo_inverse(ctx, {a, node}, 6);
    tape.backward(z);
    if (bytes.empty()) bytes = {z.value, da};
    CHECK(std::memcmp(bytes[0].raw(), z.value.raw(), z.value.bytes()) == 0);
    CHECK(std::memcmp(bytes[1].raw(), da.raw(), da.bytes()) == 0);
  }
}

TEST_CASE("pseudo_inverse refuses what is not square", "[pseudo_inverse]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  CHECK_THROWS_WITH(ops::pseudo_inverse(ctx, {Tensor::zeros(Dtype::f64, {5, 3})}, 6), Catch::Matchers::ContainsSubstring("square"));
  CHECK_THROWS_WITH(ops::pseudo_inverse(ctx, {Tensor::zeros(Dtype::f64, {3, 3})}, -1), Catch::Matchers::ContainsSubstring("iterations"));
}
