// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/cpu/blocks.h"

#include <algorithm>

#include "framework/kernels/cpu/simd/panels.h"

namespace tapeformer::kernels::cpu {
namespace {

constexpr int64_t register_rows = 6;         // of the commonest register blocks: those of AVX2, and the wide ones of AVX-512
constexpr int64_t packed_alone = 12 * 1024;  // elements below which a second thread costs more than it saves
constexpr int64_t large_part = 4 << 20;      // bytes of partial sums that don't stay in the second cache level
constexpr int64_t tall_block = 264;          // rows that pay for fetching such sums again

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

simd::DropoutRows rows_of(const DropoutDraw& d) {
  return {d.key,       d.threshold, static_cast<float>(d.scale), d.step, d.positions, d.samples, reinterpret_cast<uint32_t*>(d.room.get()),
          d.row_words, d.drawn};
}

int64_t part_size(int64_t total, int64_t most) {
  const int64_t parts = std::max<int64_t>(1, divide_up(total, most));
  return divide_up(divide_up(std::max<int64_t>(1, total), parts), register_rows) * register_rows;
}

// Enough blocks that several threads end together, unless that makes blocks so low that they read the weights too often.
int64_t block_rows(int64_t total, int64_t row_bytes) {
  const int64_t fits = (int64_t{1} << 20) / std::max<int64_t>(1, row_bytes);
  return part_size(total, std::clamp(total / 16, int64_t{48}, std::clamp(fits, int64_t{96}, int64_t{144})));
}

int64_t pass_rows(int64_t columns) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, columns)); }

// An even number of them, so that two threads end together.
int64_t segment_rows(int64_t total, int64_t part_bytes) {
  const int64_t least = part_bytes <= (1 << 19) ? 96 : part_bytes <= large_part ? 480 : 512;
  const int64_t segments = divide_up(std::max<int64_t>(1, total), std::clamp(total / 8, least, int64_t{1152}));
  return part_size(total, divide_up(std::max<int64_t>(1, total), segments + (segments > 1 ? segments % 2 : 0)));
}

int64_t segment_block_rows(int64_t total, int64_t segment, int64_t part_bytes, int64_t row_bytes) {
  return part_size(segment, part_bytes > large_part ? tall_block : block_rows(total, row_bytes));
}

Storage pack(const Execution& on, std::span<Operand> operands) {
  const int64_t columns = simd::panel_columns();
  const auto panels = [&](const Operand& o) { return divide_up(o.N(), columns); };
  int64_t floats = 0, tasks = 0;
  for (const Operand& o : operands) {
    floats += panels(o) * columns * o.K();
    tasks += panels(o);
  }
  Storage storage = allocate(static_cast<size_t>(floats) * sizeof(float));
  float* to = reinterpret_cast<float*>(storage.get());
  for (Operand& o : operands) {
    o.data = to;
    to += panels(o) * columns * o.K();
  }
  const auto one = [&](int64_t task) {
    for (const Operand& o : operands) {
      if (task < panels(o)) {
        const int p = static_cast<int>(task);
        return simd::pack_panels(rows_of(o.w), o.K(), o.N(), o.transposed, p, p + 1, o.data);
      }
      task -= panels(o);
    }
  };
  if (floats <= packed_alone)
    for (int64_t t = 0; t < tasks; ++t) one(t);
  else on.threads->run(tasks, one);
  return storage;
}

void add_parts(const Execution& on, const float* part, size_t part_size, int64_t parts, std::span<const MatrixSum> matrices,
               std::span<const VectorSum> vectors) {
  const int64_t columns = simd::panel_columns();
  const auto panels = [&](const MatrixSum& m) { return m.to.data ? divide_up(m.to.columns, columns) : 0; };
  int64_t tasks = 0, floats = 0;
  for (const MatrixSum& m : matrices) {
    tasks += panels(m);
    floats += panels(m) * columns * m.to.rows;
  }
  const auto one = [&](int64_t task) {
    for (const MatrixSum& m : matrices) {
      if (task < panels(m)) {
        const int p = static_cast<int>(task);
        return simd::add_panel_parts(part + m.at, part_size, static_cast<int>(parts), static_cast<int>(m.to.rows),
                                     static_cast<int>(m.to.columns), p, p + 1, rows_of(m.to));
      }
      task -= panels(m);
    }
  };
  if (floats * parts <= packed_alone)
    for (int64_t t = 0; t < tasks; ++t) one(t);
  else on.threads->run(tasks, one);
  for (const VectorSum& v : vectors)
    if (v.to) simd::add_vector_parts(part + v.at, part_size, static_cast<int>(parts), static_cast<int>(v.n), v.to);
}

}  // namespace tapeformer::kernels::cpu
