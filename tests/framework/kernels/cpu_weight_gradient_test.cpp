// SPDX-License-Identifier: Apache-2.0
// Gradients of large weights, tile by tile, against double loops, around the edges of steps, tiles and register blocks; bytes for any
// number of threads.
#include "framework/kernels/cpu/weight_gradient.h"

#include "tests/framework/kernels/cpu_matrix.h"
#include "tests/framework/kernels/instruction_sets.h"

using namespace tapeformer;
using test::Matrix;

namespace {

struct Sizes {
  int64_t rows, M, N;
};

}  // namespace

TEST_CASE("add_weight_gradient adds X' Y around every edge of its steps and tiles", "[cpu][weight_gradient]") {
  test::for_each_instruction_set([](const std::string& instructions) {
    INFO(instructions);
    for (const Sizes s : {Sizes{0, 4, 4}, Sizes{1, 1, 1}, Sizes{2, 7, 33}, Sizes{127, 13, 64}, Sizes{128, 6, 65}, Sizes{129, 193, 31},
                          Sizes{256, 192, 96}, Sizes{300, 20, 769}, Sizes{61, 385, 802}}) {
      INFO(s.rows << " rows, " << s.M << " x " << s.N);
      Matrix x(s.rows, s.M, 1), y(s.rows, s.N, 2), dw(s.M, s.N, 3);
      const Matrix before = dw;
      ThreadPool pool(2);
      kernels::cpu::add_weight_gradient({Device::cpu, &pool}, x.view(), y.view(), dw.view());
      CHECK(test::error(dw, [&](int64_t m, int64_t n) {
              double v = before.at(m, n);
              for (int64_t r = 0; r < s.rows; ++r) v += x.at(r, m) * y.at(r, n);
              return v;
            }) < 1e-6);
      CHECK(dw.gaps_untouched());
    }
  });
}

TEST_CASE("add_weight_gradient gives the same bytes for any number of threads", "[cpu][weight_gradient][threads]") {
  Matrix x(400, 600, 1), y(400, 900, 2), first(600, 900, 3);
  for (const int threads : test::thread_counts()) {
    Matrix dw(600, 900, 3);
    ThreadPool pool(threads);
    kernels::cpu::add_weight_gradient({Device::cpu, &pool}, x.view(), y.view(), dw.view());
    if (threads == test::thread_counts().front()) first = dw;
    CHECK(dw.same_bytes(first));
  }
}

TEST_CASE("rows that are kept for a product never lie a multiple of 2 KiB apart", "[cpu][weight_gradient]") {
  for (const int64_t columns : {1, 31, 496, 512, 1008, 1024, 3072}) {
    const kernels::cpu::KeptRows kept(3, columns);
    CHECK(kept.view.stride >= columns);
    CHECK(kept.view.stride % 512 != 0);
  }
}
