// SPDX-License-Identifier: Apache-2.0
// How the cpu kernels cut their work: into blocks of rows, and into segments whose weight gradients are summed by one task. All sizes
// follow from shapes alone, never from the number of threads. Also what the kernels over blocks of rows share: packed operands and partial
// sums.
#pragma once
#include <span>

#include "framework/core/device.h"
#include "framework/core/parallel.h"
#include "framework/core/tensor.h"
#include "framework/kernels/activation.h"
#include "framework/kernels/cpu/simd/simd.h"
#include "framework/kernels/dropout.h"
#include "framework/kernels/write.h"

namespace tapeformer::kernels::cpu {

inline simd::Rows rows_of(View<float> v) { return {v.data, v.stride}; }
inline simd::ConstRows rows_of(View<const float> v) { return {v.data, v.stride}; }
simd::DropoutRows rows_of(const DropoutDraw& d);
constexpr simd::Nonlinearity nonlinearity(Activation f) { return static_cast<simd::Nonlinearity>(f); }
static_assert(nonlinearity(Activation::none) == simd::Nonlinearity::none && nonlinearity(Activation::relu) == simd::Nonlinearity::relu &&
              nonlinearity(Activation::gelu) == simd::Nonlinearity::gelu &&
              nonlinearity(Activation::gelu_tanh) == simd::Nonlinearity::gelu_tanh);

// The size of equal parts of at most `most` rows (a little more after rounding to register blocks).
int64_t part_size(int64_t total, int64_t most);
// Rows of a block when each block is a task, and each row takes `row_bytes` of scratch.
int64_t block_rows(int64_t total, int64_t row_bytes);
// Rows of a task of a pass that does little work for each of `columns` elements.
int64_t pass_rows(int64_t columns);
// Rows of a segment when its task keeps partial sums of `part_bytes`.
int64_t segment_rows(int64_t total, int64_t part_bytes);
// Rows of a block within a segment: more where the partial sums have to come from memory again for each block.
int64_t segment_block_rows(int64_t total, int64_t segment, int64_t part_bytes, int64_t row_bytes);

// A right operand [K x N] to be packed: w[K,N], or w[N,K] when transposed. `data` is set by pack(); the storage is the returned one.
struct Operand {
  View<const float> w;
  bool transposed = false;
  float* data = nullptr;
  int K() const { return static_cast<int>(transposed ? w.columns : w.rows); }
  int N() const { return static_cast<int>(transposed ? w.rows : w.columns); }
};
Storage pack(const Execution& on, std::span<Operand> operands);

// Where a partial sum lies in each part, and the gradient it is added to; a gradient without data is passed over.
struct MatrixSum {
  size_t at;
  View<float> to;
};
struct VectorSum {
  size_t at;
  float* to;
  int64_t n;
};
// Adds `parts` parts of `part_size` floats each, in their order.
void add_parts(const Execution& on, const float* part, size_t part_size, int64_t parts, std::span<const MatrixSum> matrices,
               std::span<const VectorSum> vectors);

// Runs body(first, rows, part, add, scratch) over the blocks of each segment in order, segments in parallel; returns the parts.
template <class Body>
Storage run_segments(const Execution& on, int64_t rows, size_t part_floats, size_t scratch_floats_a_row, const Body& body) {
  const int64_t segment = segment_rows(rows, static_cast<int64_t>(part_floats * sizeof(float)));
  const int64_t block = segment_block_rows(rows, segment, static_cast<int64_t>(part_floats * sizeof(float)),
                                           static_cast<int64_t>(scratch_floats_a_row * sizeof(float)));
  Storage parts = allocate(static_cast<size_t>((rows + segment - 1) / segment) * part_floats * sizeof(float));
  parallel_blocks(*on.threads, rows, segment, [&](int64_t first, int64_t last) {
    float* part = reinterpret_cast<float*>(parts.get()) + static_cast<size_t>(first / segment) * part_floats;
    float* scratch = thread_scratch(static_cast<size_t>(block) * scratch_floats_a_row);
    for (int64_t r = first; r < last; r += block) body(r, static_cast<int>(last - r < block ? last - r : block), part, r > first, scratch);
  });
  return parts;
}
inline int64_t segments_of(int64_t rows, size_t part_floats) {
  const int64_t segment = segment_rows(rows, static_cast<int64_t>(part_floats * sizeof(float)));
  return (rows + segment - 1) / segment;
}

}  // namespace tapeformer::kernels::cpu
