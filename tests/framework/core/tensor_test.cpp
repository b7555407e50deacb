// SPDX-License-Identifier: Apache-2.0
// Tensors: strided views, copies, the caching allocator behind them, and packing.
#include "framework/core/tensor.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "framework/core/packing.h"
#include "tests/support/catch.h"

using namespace tapeformer;

TEST_CASE("columns of a matrix share storage and keep the row stride", "[tensor]") {
  const Tensor t = Tensor::of<float>({0, 1, 2, 3, 4, 5}).reshaped({2, 3});
  const Tensor c = t.columns(1, 2);
  CHECK(c.row_stride() == 3);
  CHECK_FALSE(c.contiguous());
  CHECK(c.matrix<float>().row(1)[0] == 4);
  const Tensor copy = c.clone();
  CHECK(copy.contiguous());
  CHECK(copy.span<float>()[3] == 5);
  c.fill_zero();
  CHECK(t.span<float>()[3] == 3);
  CHECK(t.span<float>()[4] == 0);
}

TEST_CASE("wrong reads and shapes throw", "[tensor]") {
  const Tensor t(Dtype::f32, {2, 3});
  CHECK_THROWS_AS(t.data<double>(), Error);
  CHECK_THROWS_AS(t.reshaped({4}), Error);
  CHECK_THROWS_AS(t.rows(1, 2), Error);
  CHECK_THROWS_AS(t.copy_from(Tensor(Dtype::f32, {3, 2})), Error);
}

TEST_CASE("the allocator hands freed blocks out again", "[tensor]") {
  const std::byte* first;
  {
    const Tensor t(Dtype::f32, {1000});
    first = t.raw();
  }
  const uint64_t held = allocator_statistics().bytes_held;
  const Tensor again(Dtype::f32, {1000});
  CHECK(again.raw() == first);
  CHECK(allocator_statistics().bytes_held == held);
  CHECK(reinterpret_cast<uintptr_t>(again.raw()) % 64 == 0);
}

TEST_CASE("batches of ever other lengths do not make the allocator hold ever more", "[tensor]") {
  release_cached();
  const uint64_t before = allocator_statistics().bytes_held;
  // Twenty tensors a step, with lengths over four octaves: kept of every size they would be some ten times the longest step.
  uint64_t largest = 0, word = 1;
  for (int step = 0; step < 400; ++step) {
    word = word * 6364136223846793005u + 1442695040888963407u;
    const int64_t rows = int64_t{1} << (9 + (word >> 60) % 4);
    const int64_t length = rows + static_cast<int64_t>(word >> 40) % rows;
    std::vector<Tensor> live;
    for (int i = 0; i < 20; ++i) live.emplace_back(Dtype::f32, Shape{length, 128});
    largest = std::max(largest, static_cast<uint64_t>(20 * length * 128 * 4));
  }
  const uint64_t held = allocator_statistics().bytes_held - before;
  CHECK(held >= largest);
  CHECK(held <= 2 * (largest + largest / 8) + (uint64_t{16} << 20) + 2 * before);
  release_cached();
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they end the process where their own memory ends
TEST_CASE("where memory ends, what is kept for later is given back first", "[tensor]") {
  release_cached();
  constexpr int64_t mib = int64_t{1} << 20;
  Tensor(Dtype::f32, {40 * mib / 4});  // kept: too small for the next
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit tight{static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + 30 * mib), before.rlim_max};
  const uint64_t in_use = allocator_statistics().bytes_in_use;
  reset_peak_bytes();
  REQUIRE(setrlimit(RLIMIT_AS, &tight) == 0);
  bool fits = true, fits_never = true;
  try {
    Tensor(Dtype::f32, {56 * mib / 4});
  } catch (const Error&) {
    fits = false;
  }
  const uint64_t peak = allocator_statistics().peak_bytes;
  try {
    Tensor(Dtype::f32, {400 * mib / 4});
  } catch (const Error&) {
    fits_never = false;
  }
  REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
  CHECK(fits);
  CHECK_FALSE(fits_never);
  CHECK(allocator_statistics().peak_bytes == peak);  // what was not had is not counted
  CHECK(allocator_statistics().bytes_in_use == in_use);
  release_cached();
}
#endif

TEST_CASE("a block that was freed serves somewhat smaller requests", "[tensor]") {
  release_cached();
  const std::byte* first;
  {
    const Tensor t(Dtype::f32, {1000, 300});
    first = t.raw();
  }
  const Tensor smaller(Dtype::f32, {1000, 240});
  CHECK(smaller.raw() == first);
  const Tensor other(Dtype::f32, {1000, 300});  // it is taken
  CHECK(other.raw() != first);
  const AllocatorStatistics now = allocator_statistics();
  CHECK(now.bytes_held >= now.bytes_in_use);
}

TEST_CASE("packing places sequences end to end, empty ones included", "[packing]") {
  const Packing p({3, 0, 2}, {10, 11, 12});
  CHECK(p.rows() == 5);
  CHECK(p.longest() == 3);
  CHECK(p.offsets() == std::vector<int32_t>{0, 3, 3, 5});
  CHECK(p.positions() == std::vector<int32_t>{0, 1, 2, 0, 1});
  CHECK(p.row_samples() == std::vector<uint32_t>{10, 10, 10, 12, 12});
  CHECK_THROWS_AS(Packing({-1}, {0}), Error);
}
