// SPDX-License-Identifier: Apache-2.0
// The optimiser passes of the cpu device against the update rules in double, at lengths around the vector width.
#include "framework/kernels/optimizer_step.h"

#include <limits>

#include "tests/framework/kernels/cpu_matrix.h"

using namespace tapeformer;
using namespace tapeformer::kernels;
using test::error;
using test::Matrix;

namespace {

const std::vector<int64_t> lengths = {0, 1, 15, 16, 17, 1000, 40000};

double clipped(double g, double most) { return most > 0 ? std::clamp(g, -most, most) : g; }

}  // namespace

TEST_CASE("AdamStep follows the rule, decoupled and coupled, clipped and scaled", "[cpu][optimizer]") {
  ThreadPool pool(2);
  const Execution on{Device::cpu, &pool};
  for (const int64_t n : lengths)
    for (const bool decoupled : {true, false})
      for (const double clip : {0.0, 0.3}) {
        AdamSettings s;
        s.rate = 0.01;
        s.decay = 0.1;
        s.decoupled = decoupled;
        s.clip_value = clip;
        s.gradient_scale = 0.5;
        s.correction1 = 1 - 0.9;
        s.correction2 = 1 - 0.999;
        Matrix g(1, n, 1, 2), p(1, n, 2), m(1, n, 3, 0.1), v(1, n, 4, 0.1);
        for (int64_t i = 0; i < n; ++i) v.data()[i] = std::abs(v.data()[i]);
        const Matrix p0 = p, m0 = m, v0 = v;
        AdamStep<float>::cpu(on, s, n, g.data(), p.data(), m.data(), v.data());
        const auto gradient = [&](int64_t i) { return clipped(0.5 * g.at(0, i), clip) + (decoupled ? 0 : 0.1 * p0.at(0, i)); };
        const auto first = [&](int64_t i) { return 0.9 * m0.at(0, i) + 0.1 * gradient(i); };
        const auto second = [&](int64_t i) { return 0.999 * v0.at(0, i) + 0.001 * gradient(i) * gradient(i); };
        INFO(n << " elements, decoupled " << decoupled << ", clip " << clip);
        CHECK(error(m, [&](int64_t, int64_t i) { return first(i); }) < 1e-6);
        CHECK(error(v, [&](int64_t, int64_t i) { return second(i); }) < 1e-6);
        CHECK(error(p, [&](int64_t, int64_t i) {
                const double kept = p0.at(0, i) * (decoupled ? 1 - 0.01 * 0.1 : 1);
                return kept - 0.01 * (first(i) / s.correction1) / (std::sqrt(second(i) / s.correction2) + s.epsilon);
              }) < 1e-6);
        CHECK((p.gaps_untouched() && m.gaps_untouched() && v.gaps_untouched()));
      }
}

TEST_CASE("SgdStep follows the rule with and without momentum", "[cpu][optimizer]") {
  ThreadPool pool(2);
  const Execution on{Device::cpu, &pool};
  for (const int64_t n : lengths)
    for (const double momentum : {0.0, 0.9}) {
      const SgdSettings s{0.1, momentum, 0.01, 2, 0.5};
      Matrix g(1, n, 1), p(1, n, 2), b(1, n, 3);
      const Matrix p0 = p, b0 = b;
      SgdStep<float>::cpu(on, s, n, g.data(), p.data(), momentum == 0 ? nullptr : b.data());
      const auto buffer = [&](int64_t i) { return momentum * b0.at(0, i) + clipped(2 * g.at(0, i), 0.5) + 0.01 * p0.at(0, i); };
      if (momentum != 0) CHECK(error(b, [&](int64_t, int64_t i) { return buffer(i); }) < 1e-6);
      CHECK(error(p, [&](int64_t, int64_t i) { return p0.at(0, i) - 0.1 * buffer(i); }) < 1e-6);
    }
}

TEST_CASE("a NaN gradient is not clipped away", "[cpu][optimizer]") {
  ThreadPool pool(1);
  const Execution on{Device::cpu, &pool};
  std::vector<float> g(20, 1.f), p(20, 1.f), m(20, 0.f), v(20, 0.f);
  g[3] = std::numeric_limits<float>::quiet_NaN();
  AdamSettings s;
  s.rate = 0.1;
  s.clip_value = 0.5;
  AdamStep<float>::cpu(on, s, 20, g.data(), p.data(), m.data(), v.data());
  CHECK((std::isnan(p[3]) && !std::isnan(p[2])));
}

TEST_CASE("MoveAverage and SumOfSquares, the same bytes for any number of threads", "[cpu][optimizer]") {
  for (const int64_t n : lengths) {
    Matrix x(1, n, 1, 100), average(1, n, 2);
    const Matrix before = average;
    double expected = 0, first = 0;
    for (int64_t i = 0; i < n; ++i) expected += x.at(0, i) * x.at(0, i);
    for (const int threads : test::thread_counts()) {
      ThreadPool pool(threads);
      const Execution on{Device::cpu, &pool};
      double sum = -1;
      SumOfSquares<float>::cpu(on, n, x.data(), &sum);
      CHECK(std::abs(sum - expected) <= 1e-12 * expected);
      if (threads == 1) first = sum;
      CHECK(sum == first);
      average = before;
      MoveAverage<float>::cpu(on, 0.99, n, x.data(), average.data());
      CHECK(error(average, [&](int64_t, int64_t i) { return 0.99 * before.at(0, i) + 0.01 * x.at(0, i); }) < 4e-6);
    }
  }
  ThreadPool pool(2);
  const Execution on{Device::cpu, &pool};
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> x(50000, 1.f);
    x[40001] = bad;
    double sum = 0;
    SumOfSquares<float>::cpu(on, 50000, x.data(), &sum);
    CHECK(!std::isfinite(sum));
  }
}
