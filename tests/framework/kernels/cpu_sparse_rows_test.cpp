// SPDX-License-Identifier: Apache-2.0
// The cpu sums of rows on every instruction set, at widths around the vector and with any number of threads.
#include "framework/kernels/sparse_rows.h"

#include "tests/framework/kernels/cpu_matrix.h"
#include "tests/framework/kernels/instruction_sets.h"

using namespace tapeformer;
using namespace tapeformer::kernels;
using test::Matrix;

namespace {

RowMap random_map(int64_t rows, int64_t results, uint32_t seed, bool weighted) {
  RowMap map;
  map.rows = rows;
  const Draw draw{seed, no_sample, 0};
  for (uint32_t r = 0; r < results; ++r) {
    for (uint32_t e = 0; e < draw.word(r, 0) % 5; ++e) {
      map.source.push_back(int32_t(draw.word(r, e + 1) % uint32_t(rows)));
      if (weighted) map.weight.push_back(draw.uniform(r, e + 10) - 0.3);
    }
    map.begin.push_back(int32_t(map.source.size()));
  }
  return map;
}

double element(const RowMap& map, const Matrix& x, int64_t r, int64_t c) {
  double sum = 0;
  for (auto e = size_t(map.begin[size_t(r)]); e < size_t(map.begin[size_t(r) + 1]); ++e)
    sum += (map.weight.empty() ? 1 : map.weight[e]) * x.at(map.source[e], c);
  return sum;
}

}  // namespace

TEST_CASE("cpu sums of rows equal the double loops and have the same bytes on any number of threads", "[cpu][sparse_rows]") {
  test::for_each_instruction_set([](const std::string& instructions) {
    INFO(instructions);
    for (const int64_t width : {1, 7, 16, 33, 64, 70}) {
      const RowMap first = random_map(90, 1300, 1, true), second = random_map(90, 1300, 2, false);
      const RowMap* maps[] = {&first, &second};
      Matrix x(90, 2 * width, 3), out(1300, 2 * width, 4);
      std::vector<float> bytes;
      for (const int threads : test::thread_counts()) {
        ThreadPool pool(threads);
        SparseRows<float>::cpu({Device::cpu, &pool}, maps, x.view(), out.view(), Write::overwrite);
        if (bytes.empty()) bytes = out.memory();
        CHECK(std::memcmp(bytes.data(), out.memory().data(), bytes.size() * sizeof(float)) == 0);
      }
      const auto want = [&](int64_t r, int64_t c) { return element(*maps[c / width], x, r, c); };
      CHECK(test::error(out, want) < 1e-6);
      ThreadPool pool(2);
      SparseRows<float>::cpu({Device::cpu, &pool}, maps, x.view(), out.view(), Write::add);
      CHECK(test::error(out, [&](int64_t r, int64_t c) { return 2 * want(r, c); }) < 1e-6);
      CHECK(out.gaps_untouched());
    }
  });
}
