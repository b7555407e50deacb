// SPDX-License-Identifier: Apache-2.0
// Optimiser passes of the reference device against the published rules, written out for one number.
#include "framework/kernels/optimizer_step.h"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::kernels;

namespace {

const Execution on{};
bool close(double a, double b) { return std::abs(a - b) <= 1e-12 * std::max(1.0, std::abs(b)); }

}  // namespace

TEST_CASE("Adam and AdamW make the published steps", "[optimizer_step]") {
  const bool decoupled = GENERATE(true, false);
  AdamSettings s;
  s.rate = 0.1;
  s.beta1 = 0.8;
  s.beta2 = 0.9;
  s.epsilon = 1e-3;
  s.decay = 0.05;
  s.gradient_scale = 0.5;
  s.decoupled = decoupled;
  std::vector<double> p{1.5, -2}, m(2), v(2);
  double expected[] = {1.5, -2}, em[] = {0, 0}, ev[] = {0, 0};
  const std::vector<double> gradient{4, -0.25};
  for (int step = 1; step <= 3; ++step) {
    s.correction1 = 1 - std::pow(s.beta1, step);
    s.correction2 = 1 - std::pow(s.beta2, step);
    AdamStep<double>::reference(on, s, 2, gradient.data(), p.data(), m.data(), v.data());
    for (int i = 0; i < 2; ++i) {
      const double g = 0.5 * gradient[size_t(i)] + (decoupled ? 0 : 0.05 * expected[i]);
      if (decoupled) expected[i] *= 1 - 0.1 * 0.05;
      em[i] = 0.8 * em[i] + 0.2 * g;
      ev[i] = 0.9 * ev[i] + 0.1 * g * g;
      expected[i] -= 0.1 * (em[i] / (1 - std::pow(0.8, step))) / (std::sqrt(ev[i] / (1 - std::pow(0.9, step))) + 1e-3);
      CHECK(close(p[size_t(i)], expected[i]));
      CHECK(close(m[size_t(i)], em[i]));
      CHECK(close(v[size_t(i)], ev[i]));
    }
  }
}

TEST_CASE("values are clipped after the gradient is scaled and before decay", "[optimizer_step]") {
  const std::vector<double> gradient{-30, 0.5};
  std::vector<double> p{2, 2};
  SgdStep<double>::reference(on, {1, 0, 0.5, 0.1, 1}, 2, gradient.data(), p.data(), nullptr);
  CHECK(close(p[0], 2 - (-1 + 0.5 * 2)));
  CHECK(close(p[1], 2 - (0.05 + 0.5 * 2)));
}

TEST_CASE("SGD with momentum makes the published steps", "[optimizer_step]") {
  const std::vector<double> gradient{1};
  std::vector<double> p{10}, b{0};
  const SgdSettings s{0.1, 0.9, 0, 1, 0};
  SgdStep<double>::reference(on, s, 1, gradient.data(), p.data(), b.data());
  CHECK(close(p[0], 9.9));
  SgdStep<double>::reference(on, s, 1, gradient.data(), p.data(), b.data());
  CHECK(close(b[0], 1.9));
  CHECK(close(p[0], 9.71));
}

TEST_CASE("the moving average and the sum of squares", "[optimizer_step]") {
  const std::vector<float> value{4, -8};
  std::vector<float> average{0, 8};
  MoveAverage<float>::reference(on, 0.75, 2, value.data(), average.data());
  CHECK(average == std::vector<float>{1, 4});
  double sum = -1;
  const std::vector<float> large{3e30f, 4e30f};
  SumOfSquares<float>::reference(on, 2, large.data(), &sum);
  CHECK(std::abs(sum / 25e60 - 1) < 1e-6);
  SumOfSquares<float>::reference(on, 0, nullptr, &sum);
  CHECK(sum == 0);
  const std::vector<float> bad{1, std::numeric_limits<float>::quiet_NaN()};
  SumOfSquares<float>::reference(on, 2, bad.data(), &sum);
  CHECK(std::isnan(sum));
}
