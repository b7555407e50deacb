// SPDX-License-Identifier: Apache-2.0
// Products by oneDNN: against double loops, a row's bytes in every place of a block, any number of threads, and no threads but ours.
#include "framework/kernels/cpu/onednn.h"

#include <cmath>
#include <fstream>

#include "framework/kernels/linear.h"
#include "tests/framework/kernels/cpu_matrix.h"

using namespace tapeformer;
using namespace tapeformer::kernels;
using test::error;
using test::Matrix;

namespace {

int threads_of_process() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("Threads:")) return std::stoi(line.substr(8));
  return 0;
}

std::vector<float> scratch_for(const cpu::OnednnProduct& product) { return std::vector<float>(product.scratch() + 16); }

// What K roundings to float of random sign come to, beside the largest sum. Seen at K = 3072: 1.7e-6 with AVX2, below 1e-6 with AVX-512.
double rounding(int64_t K) { return std::sqrt(static_cast<double>(K)) * 0x1p-24; }

void copy_row(Matrix& to, int64_t at, Matrix& from) { std::copy_n(from.view().row(0), from.columns(), to.view().row(at)); }

}  // namespace

TEST_CASE("a oneDNN product equals double loops for short and whole blocks, strided or not", "[cpu][onednn]") {
  for (const bool transposed : {true, false})
    for (const int64_t gap : {0, 3})
      for (const int64_t count : {1, 47, 96}) {
        const int64_t K = 70, N = 50;
        INFO(count << " rows, gap " << gap << ", transposed " << transposed);
        Matrix x(count, K, 1, 1, gap), w(transposed ? N : K, transposed ? K : N, 2, 1, gap), bias(1, N, 3), y(count, N, 4, 1, gap);
        const Matrix y0 = y;
        const auto sum = [&](int64_t r, int64_t n) {
          double v = 0;
          for (int64_t k = 0; k < K; ++k) v += x.at(r, k) * (transposed ? w.at(n, k) : w.at(k, n));
          return v;
        };
        const cpu::OnednnProduct plain(w.view(), transposed, nullptr, 96), biased(w.view(), transposed, bias.data(), 96);
        std::vector<float> scratch = scratch_for(plain);
        plain.multiply(x.view(), y.view(), Write::add, scratch.data());
        CHECK(error(y, [&](int64_t r, int64_t n) { return y0.at(r, n) + sum(r, n); }) < 1e-6);
        scratch = scratch_for(biased);
        biased.multiply(x.view(), y.view(), Write::overwrite, scratch.data());
        CHECK(error(y, [&](int64_t r, int64_t n) { return bias.at(0, n) + sum(r, n); }) < 1e-6);
        CHECK(y.gaps_untouched());
      }
}

TEST_CASE("a row has the same bytes in every place of a block of oneDNN", "[cpu][onednn]") {
  for (const cpu::OnednnShape& s : cpu::onednn_shapes())
    for (const bool transposed : {true, false}) {
      INFO(s.K << " x " << s.N << ", transposed " << transposed);
      Matrix w(transposed ? s.N : s.K, transposed ? s.K : s.N, 1), one(1, s.K, 2), alone(1, s.N, 3);
      const cpu::OnednnProduct product(w.view(), transposed, nullptr, s.rows);
      std::vector<float> scratch = scratch_for(product);
      product.multiply(one.view(), alone.view(), Write::overwrite, scratch.data());
      int64_t different = 0;
      for (const int64_t parity : {0, 1}) {  // the row in every second place, others between them
        Matrix x(s.rows, s.K, 4), y(s.rows, s.N, 5);
        for (int64_t r = parity; r < s.rows; r += 2) copy_row(x, r, one);
        product.multiply(x.view(), y.view(), Write::overwrite, scratch.data());
        for (int64_t r = parity; r < s.rows; r += 2)
          different += std::memcmp(y.view().row(r), alone.data(), static_cast<size_t>(s.N) * sizeof(float)) != 0;
      }
      CHECK(different == 0);
    }
}

TEST_CASE("layers that oneDNN computes give the same bytes for any number of threads, and start none", "[cpu][onednn][threads]") {
  for (const cpu::OnednnShape& s : cpu::onednn_shapes()) {
    INFO(s.K << " x " << s.N);
    const int64_t rows = 2 * s.rows + 5;
    Matrix x(rows, s.K, 1), w(s.N, s.K, 2), bias(1, s.N, 3), dy(rows, s.N, 4), y(rows, s.N, 5), dx(rows, s.K, 6);
    Matrix first_y = y, first_dx = dx;
    for (const int threads : test::thread_counts()) {
      ThreadPool pool(threads);
      const Execution on{Device::cpu, &pool};
      const int before = threads_of_process();
      LinearForward<float>::cpu(on, x.view(), w.view(), bias.data(), y.view());
      LinearBackwardInput<float>::cpu(on, dy.view(), w.view(), dx.view(), Write::overwrite);
      CHECK(threads_of_process() == before);
      CHECK(before >= threads);
      if (threads == 1) {
        first_y = y;
        first_dx = dx;
      }
      CHECK(first_y.same_bytes(y));
      CHECK(first_dx.same_bytes(dx));
    }
    Matrix last_y(5, s.N, 7), last_dx(5, s.K, 8);
    ThreadPool pool(1);
    const Execution on{Device::cpu, &pool};
    LinearForward<float>::cpu(on, x.rows(rows - 5, 5), w.view(), bias.data(), last_y.view());
    LinearBackwardInput<float>::cpu(on, dy.rows(rows - 5, 5), w.view(), last_dx.view(), Write::overwrite);
    for (int64_t r = 0; r < 5; ++r) {
      CHECK(std::memcmp(last_y.view().row(r), y.view().row(rows - 5 + r), static_cast<size_t>(s.N) * sizeof(float)) == 0);
      CHECK(std::memcmp(last_dx.view().row(r), dx.view().row(rows - 5 + r), static_cast<size_t>(s.K) * sizeof(float)) == 0);
    }
    CHECK(error(last_y, [&](int64_t r, int64_t n) {
            double v = bias.at(0, n);
            for (int64_t k = 0; k < s.K; ++k) v += x.at(rows - 5 + r, k) * w.at(n, k);
            return v;
          }) < rounding(s.K));
  }
}
