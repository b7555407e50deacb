// SPDX-License-Identifier: Apache-2.0
// Tensors: strided views, copies, the caching allocator behind them, and packing.
#include "framework/core/tensor.h"

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

TEST_CASE("packing places sequences end to end, empty ones included", "[packing]") {
  const Packing p({3, 0, 2}, {10, 11, 12});
  CHECK(p.rows() == 5);
  CHECK(p.longest() == 3);
  CHECK(p.offsets() == std::vector<int32_t>{0, 3, 3, 5});
  CHECK(p.positions() == std::vector<int32_t>{0, 1, 2, 0, 1});
  CHECK(p.row_samples() == std::vector<uint32_t>{10, 10, 10, 12, 12});
  CHECK_THROWS_AS(Packing({-1}, {0}), Error);
}
