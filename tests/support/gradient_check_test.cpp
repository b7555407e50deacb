// SPDX-License-Identifier: Apache-2.0
// The gradient check itself: it accepts a right gradient and refuses a slightly wrong one.
#include "tests/support/gradient_check.h"

#include <cmath>
#include <limits>

#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

// f(x) = sum over entries of sin(x) + x^2 / 2, whose gradient is cos(x) + x.
double loss(const Matrix& x) {
  double sum = 0;
  for (double v : x.values) sum += std::sin(v) + v * v / 2;
  return sum;
}
Matrix gradient(const Matrix& x, double cosine_factor) {
  Matrix g(x.rows, x.columns);
  for (size_t i = 0; i < g.values.size(); ++i) g.values[i] = cosine_factor * std::cos(x.values[i]) + x.values[i];
  return g;
}

}  // namespace

TEST_CASE("a right gradient passes and a term off by one in a hundred does not", "[gradient_check]") {
  Matrix x(random_tensor(Dtype::f64, {5, 7}, 1));
  const Matrix before = x;
  const auto f = [&] { return loss(x); };
  CHECK(gradient_error(f, x, gradient(x, 1)) < 1e-6);
  CHECK(gradient_error(f, x, gradient(x, 1.01)) > 1e-4);
  CHECK(x.values == before.values);
}

TEST_CASE("one wrong, missing or NaN entry is seen", "[gradient_check]") {
  Matrix x(random_tensor(Dtype::f64, {3, 4}, 2));
  const auto f = [&] { return loss(x); };
  Matrix wrong = gradient(x, 1);
  wrong(2, 3) += 0.01;
  CHECK(gradient_error(f, x, wrong) > 1e-4);
  wrong(2, 3) = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isinf(gradient_error(f, x, wrong)));
  CHECK(std::isinf(gradient_error(f, x, Matrix(4, 3))));
}

TEST_CASE("relative error is measured by the largest entry and refuses NaN and other shapes", "[gradient_check]") {
  Matrix a(1, 2), b(1, 2);
  a.values = {10.1, 0};
  b.values = {10, 0};
  CHECK(std::abs(relative_error(a, b) - 0.01) < 1e-12);
  a.values = {10, std::numeric_limits<double>::quiet_NaN()};
  CHECK(std::isinf(relative_error(a, b)));
  CHECK(std::isinf(relative_error(Matrix(2, 1), b)));
}

TEST_CASE("random tensors hold the same numbers in both types", "[gradient_check]") {
  const Matrix f(random_tensor(Dtype::f32, {4, 30}, 3)), d(random_tensor(Dtype::f64, {4, 30}, 3));
  CHECK(f.values == d.values);
  CHECK(f.values != Matrix(random_tensor(Dtype::f32, {4, 30}, 4)).values);
}
