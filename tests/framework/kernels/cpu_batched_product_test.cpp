// SPDX-License-Identifier: Apache-2.0
// The cpu products of blocks on every instruction set: values at sizes around the register blocks, threads, neighbours, far strides.
#include "framework/kernels/batched_product.h"

#include <limits>

#include "tests/framework/kernels/cpu_matrix.h"
#include "tests/framework/kernels/instruction_sets.h"

using namespace tapeformer;
using namespace tapeformer::kernels;
using test::Matrix;

namespace {

struct Case {
  int64_t m, n, k;
  bool ta, tb;
  Matrix a, b, c;
  ProductGroup group;

  Case(int64_t m_, int64_t n_, int64_t k_, bool ta_, bool tb_, int64_t gap = 3)
      : m(m_),
        n(n_),
        k(k_),
        ta(ta_),
        tb(tb_),
        a(ta ? k : m, ta ? m : k, 1, 1, gap),
        b(tb ? n : k, tb ? k : n, 2, 1, gap),
        c(m, n, 3, 1, gap),
        group{{0, a.rows(), 0, a.columns()}, {0, b.rows(), 0, b.columns()}, {0, m, 0, n}} {}
  void run(const Execution& on, Write write, double alpha) {
    BatchedProduct<float>::cpu(on, {{&group, 1}, ta, tb, alpha}, a.view(), b.view(), c.view(), write);
  }
  double element(int64_t r, int64_t col) const {
    double sum = 0;
    for (int64_t i = 0; i < k; ++i) sum += (ta ? a.at(i, r) : a.at(r, i)) * (tb ? b.at(col, i) : b.at(i, col));
    return sum;
  }
};

void check(Case x) {
  CAPTURE(x.m, x.n, x.k, x.ta, x.tb);
  ThreadPool pool(2);
  const Execution on{Device::cpu, &pool};
  x.run(on, Write::overwrite, 0.5);
  CHECK(test::error(x.c, [&](int64_t r, int64_t col) { return 0.5 * x.element(r, col); }) < 2e-6 * std::sqrt(double(x.k) + 4));
  x.run(on, Write::add, -2);
  CHECK(test::error(x.c, [&](int64_t r, int64_t col) { return -1.5 * x.element(r, col); }) < 4e-6 * std::sqrt(double(x.k) + 4));
  CHECK(x.c.gaps_untouched());
}

}  // namespace

TEST_CASE("cpu products of blocks around the register blocks", "[cpu][batched_product]") {
  test::for_each_instruction_set([](const std::string& instructions) {
    INFO(instructions);
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        for (const int64_t m : {1, 2, 5, 6, 7, 12, 13, 23, 145})
          for (const int64_t n : {1, 7, 8, 9, 16, 17, 31, 32, 33, 64, 129}) check(Case(m, n, 19, ta, tb));
        for (const int64_t k : {0, 1, 15, 16, 17, 255, 256, 257, 513}) check(Case(14, 40, k, ta, tb));
        check(Case(40, 48, 512, ta, tb, 0));  // strides of powers of two
        check(Case(40, 1024, 30, ta, tb, 0));
        check(Case(1024, 16, 70, ta, tb, 0));
      }
  });
}

TEST_CASE("cpu products have the same bytes for any threads, place and neighbours", "[cpu][batched_product]") {
  // Groups side by side in shared matrices: group g alone must give the bytes that it gives among the others, and NaN must not spread.
  const int64_t sizes[] = {5, 64, 200, 1, 77};
  for (const bool transpose : {false, true}) {
    Matrix a(347, 300, 1), b(347, 300, 2), c(300, 300, 3), gradient(300, 300, 4);
    std::vector<ProductGroup> groups;
    for (int64_t g = 0, row = 0; g < 5; row += sizes[g++]) {
      const Block rows{row, sizes[g], 10 * g, 20};
      groups.push_back({rows, transpose ? rows : Block{10 * g, 20, 30, 33}, {40 * g, sizes[g] < 40 ? sizes[g] : 40, 7, 33}});
      if (transpose) groups.back().a = {row, sizes[g], 0, 40}, groups.back().c.rows = 40, groups.back().b = {row, sizes[g], 9, 33};
      else groups.back().a.rows = groups.back().c.rows;
    }
    const auto run = [&](int threads, std::span<const ProductGroup> some) {
      ThreadPool pool(threads);
      BatchedProduct<float>::cpu({Device::cpu, &pool}, {some, transpose, false, 1}, a.view(), b.view(), c.view(), Write::overwrite);
      return c;
    };
    const Matrix all = run(1, groups);
    for (const int threads : test::thread_counts()) CHECK(run(threads, groups).same_bytes(all));
    for (const ProductGroup& g : groups) {
      Matrix one = run(2, {&g, 1});
      for (int64_t r = 0; r < g.c.rows; ++r)
        CHECK(std::memcmp(one.view().row(g.c.row + r) + 7, Matrix(all).view().row(g.c.row + r) + 7, 33 * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("cpu products add overlapping results in the order of the groups", "[cpu][batched_product]") {
  // 2^24 + 1 - 2^24 is 0 in this order and 1 in others.
  Matrix a(3, 1, 1), b(1, 1, 2), c(200, 200, 3);
  a.view().row(0)[0] = 16777216.f;
  a.view().row(1)[0] = 1.f;
  a.view().row(2)[0] = -16777216.f;
  b.view().row(0)[0] = 1.f;
  std::vector<ProductGroup> groups;
  for (int64_t g = 0; g < 3; ++g) groups.push_back({{g, 1, 0, 1}, {0, 1, 0, 1}, {150, 1, 130, 1}});
  for (const int threads : test::thread_counts()) {
    ThreadPool pool(threads);
    BatchedProduct<float>::cpu({Device::cpu, &pool}, {groups, false, false, 1}, a.view(), b.view(), c.view(), Write::overwrite);
    CHECK(c.at(150, 130) == 0);
    CHECK(c.at(0, 0) == 0);
  }
  std::swap(groups[1], groups[2]);
  ThreadPool pool(2);
  BatchedProduct<float>::cpu({Device::cpu, &pool}, {groups, false, false, 1}, a.view(), b.view(), c.view(), Write::overwrite);
  CHECK(c.at(150, 130) == 1);
}

TEST_CASE("cpu products keep NaN in its row", "[cpu][batched_product]") {
  Case x(20, 40, 30, false, false);
  x.a.view().row(4)[7] = std::numeric_limits<float>::quiet_NaN();
  ThreadPool pool(1);
  x.run({Device::cpu, &pool}, Write::overwrite, 1);
  for (int64_t r = 0; r < 20; ++r)
    for (int64_t n = 0; n < 40; ++n) CHECK(std::isnan(x.c.at(r, n)) == (r == 4));
}
