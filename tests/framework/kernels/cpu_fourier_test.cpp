// SPDX-License-Identifier: Apache-2.0
// The fast Fourier transform on every instruction set: smooth lengths, primes, longer transforms than sequences, odd numbers of channels.
#include "framework/kernels/fourier.h"

#include <numbers>

#include "tests/framework/kernels/cpu_matrix.h"
#include "tests/framework/kernels/instruction_sets.h"

using namespace tapeformer;
using namespace tapeformer::kernels;
using test::Formula;
using test::Matrix;

namespace {

struct Case {
  Packing packing;
  std::vector<FourierPlanPointer> plans;
  std::vector<float> channels;
  Matrix x, y;

  Case(std::vector<int32_t> lengths, int64_t width, int32_t length = 0)
      : packing(lengths, std::vector<uint32_t>(lengths.size())), channels(fourier_channels(width)), x(packing.rows(), width, 1),
        y(packing.rows(), width, 2) {
    for (const int32_t n : lengths) plans.push_back(std::make_shared<const FourierPlan>(fourier_plan(length ? length : n)));
  }
  void run(int threads, Write write) {
    ThreadPool pool(threads);
    FourierMix<float>::cpu({Device::cpu, &pool}, {&packing, plans, channels}, x.view(), y.view(), write);
  }
  // Row k and channel c of sequence b by the definition, cos(p + q) = cos p cos q - sin p sin q: first the channels, then the positions.
  Formula formula(int b, double factor = 1) const {
    const int64_t first = packing.offsets()[static_cast<size_t>(b)], n = packing.length(b), width = x.columns();
    const int64_t length = plans[static_cast<size_t>(b)]->length;
    auto y = std::make_shared<std::vector<double>>(static_cast<size_t>(n * width));
    for (int64_t j = 0; j < n; ++j)
      for (int64_t c = 0; c < width; ++c) {
        double real = 0, imaginary = 0;
        for (int64_t d = 0; d < width; ++d) {
          const double q = 2 * std::numbers::pi * static_cast<double>(d * c % width) / static_cast<double>(width);
          real += x.at(first + j, d) * std::cos(q);
          imaginary += x.at(first + j, d) * std::sin(q);
        }
        for (int64_t k = 0; k < n; ++k) {
          const double p = 2 * std::numbers::pi * static_cast<double>(j * k % length) / static_cast<double>(length);
          (*y)[static_cast<size_t>(k * width + c)] += factor * (std::cos(p) * real - std::sin(p) * imaginary);
        }
      }
    return [y, width](int64_t k, int64_t c) { return (*y)[static_cast<size_t>(k * width + c)]; };
  }
  double error_of(int b, const Formula& expected) {
    Matrix part(packing.length(b), x.columns(), 0);
    for (int64_t r = 0; r < part.rows(); ++r)
      std::copy_n(y.view().row(packing.offsets()[static_cast<size_t>(b)] + r), x.columns(), part.view().row(r));
    return test::error(part, expected);
  }
};

}  // namespace

TEST_CASE("plans factor every length", "[fourier]") {
  for (int32_t n = 1; n <= 200; ++n) {
    const FourierPlan plan = fourier_plan(n);
    int64_t product = 1;
    for (const int32_t r : plan.radices) product *= r;
    CHECK(product == plan.smooth);
    CHECK((plan.smooth == n ? plan.chirp.empty() : plan.smooth >= 2 * n - 1));
  }
  CHECK(fourier_plan(0).smooth == 0);
  CHECK(fourier_plan(11).smooth == 24);
  CHECK(fourier_plan(4096).radices == std::vector<int32_t>(6, 4));
}

TEST_CASE("cpu Fourier transforms of every length", "[cpu][fourier]") {
  std::vector<int32_t> lengths;
  for (int32_t n = 0; n <= 40; ++n) lengths.push_back(n);
  for (const int32_t n : {49, 97, 120, 127, 128, 131}) lengths.push_back(n);
  for (const int64_t width : {1, 2, 3, 16, 19}) {
    Case c(lengths, width);
    std::vector<Formula> once, twice;
    for (int b = 0; b < c.packing.sequences(); ++b) {
      once.push_back(c.formula(b));
      twice.push_back(c.formula(b, 2));
    }
    test::for_each_instruction_set([&](const std::string& instructions) {
      for (const Write write : {Write::overwrite, Write::add}) {
        c.run(2, write);
        for (int b = 0; b < c.packing.sequences(); ++b) {
          INFO(instructions << ", length " << c.packing.length(b) << ", " << width << " channels");
          CHECK(c.error_of(b, (write == Write::add ? twice : once)[static_cast<size_t>(b)]) < 2e-6);
        }
        CHECK(c.y.gaps_untouched());
      }
    });
  }
}

TEST_CASE("cpu Fourier transforms longer than the sequence", "[cpu][fourier]") {
  for (const int32_t length : {64, 67}) {
    Case c({1, 5, 64, 33}, 6, length);
    c.run(1, Write::overwrite);
    for (int b = 0; b < 4; ++b) CHECK(c.error_of(b, c.formula(b)) < 2e-6);
  }
}

TEST_CASE("cpu Fourier transforms have the same bytes for any threads and neighbours", "[cpu][fourier]") {
  Case all({200, 3, 211, 64}, 40);
  all.run(1, Write::overwrite);
  const Matrix expected = all.y;
  for (const int threads : test::thread_counts()) {
    all.run(threads, Write::overwrite);
    CHECK(all.y.same_bytes(expected));
  }
  Case one({211}, 40);
  for (int64_t r = 0; r < 211; ++r) std::copy_n(all.x.view().row(203 + r), 40, one.x.view().row(r));
  one.run(2, Write::overwrite);
  for (int64_t r = 0; r < 211; ++r) CHECK(std::memcmp(one.y.view().row(r), all.y.view().row(203 + r), 40 * sizeof(float)) == 0);
}
