// SPDX-License-Identifier: Apache-2.0
// One call of attention on feature maps, cut into tasks: one head on a chunk of rows of one sequence. The cut depends on the sequence
// alone, so neither threads nor batch mates change a byte.
#pragma once
#include <atomic>
#include <vector>

#include "framework/core/buffer.h"
#include "framework/kernels/cpu/blocks.h"
#include "framework/kernels/cpu/simd/feature_attention.h"
#include "framework/kernels/feature_attention.h"

namespace tapeformer::kernels::cpu {

constexpr float bits_per_nat = 1.44269504088896341f, nats_per_bit = 0.693147180559945309f;

class FeatureRun {
 public:
  struct Chunk {
    int sequence, number, count;  // which of the sequence's chunks
    int32_t row, rows;            // in the batch
  };

  FeatureRun(const Execution&, const FeatureAttentionCall<float>&);

  int64_t tasks() const { return static_cast<int64_t>(chunks_.size()) * call_.heads; }
  int head_of(int64_t task) const { return static_cast<int>(task % call_.heads); }
  const Chunk& chunk_of(int64_t task) const { return chunks_[static_cast<size_t>(task / call_.heads)]; }
  // The task of the same head on another chunk of the same sequence.
  int64_t sibling(int64_t task, int number) const { return task + int64_t{number - chunk_of(task).number} * call_.heads; }
  int64_t pair_index(int64_t task) const { return int64_t{chunk_of(task).sequence} * call_.heads + head_of(task); }
  int64_t place(int64_t task) const { return int64_t{head_of(task)} * call_.packing->rows() + chunk_of(task).row; }  // in [heads][T]

  // What a task adds to the state of its sequence and head.
  float* part(int64_t task) const { return reinterpret_cast<float*>(parts_.get()) + static_cast<size_t>(task) * layout_.size; }
  const simd::FeaturePart& layout() const { return layout_; }
  // Channels e ... of row r of S of a part, up to the end of a panel of panel_columns().
  const float* row_of(const float* part, int r, int e) const {
    return part + (static_cast<size_t>(e / columns_) * static_cast<size_t>(call_.features) + static_cast<size_t>(r)) *
                      static_cast<size_t>(columns_);
  }
  int panel_columns() const { return columns_; }
  // Called when a task's part is written. True for the last one of its sequence and head.
  bool finish(int64_t task) {
    return done_[static_cast<size_t>(pair_index(task))].fetch_add(1, std::memory_order_acq_rel) + 1 == chunk_of(task).count;
  }

  const simd::FeatureHead& description() const { return head_; }
  simd::FeatureHead head(int64_t task) const;  // with the head's matrix
  // Queries or keys; without shifts.
  simd::FeatureChunk chunk(int64_t task, bool keys) const;
  template <class T>
  T* at(View<T> x, int64_t task, int columns) const {
    return x.row(chunk_of(task).row) + int64_t{head_of(task)} * columns;
  }

  // Sums of the matrix's gradients: [heads][2 x chunks] in panel layout, queries then keys of each chunk. To be asked for before the parts
  // are; a part is null where nobody did, and then nothing is added up.
  void keep_matrix_parts();
  float* matrix_part(int64_t task, bool keys) const;
  void add_matrix_parts(float* d_matrix) const;

 protected:
  const FeatureAttentionCall<float>& call_;

 private:
  size_t matrix_floats() const {
    return static_cast<size_t>((call_.input_dim + columns_ - 1) / columns_ * columns_) * static_cast<size_t>(head_.matrix_rows);
  }
  void describe();
  void pack_matrices();

  const Execution& on_;
  int columns_;
  simd::FeatureHead head_;
  simd::FeaturePart layout_;
  std::vector<Chunk> chunks_;
  std::vector<float> in_bits_;  // the matrices times log2 e
  std::vector<Operand> operands_;
  Storage packed_, parts_, matrix_parts_;
  std::vector<std::atomic<int>> done_;
};

}  // namespace tapeformer::kernels::cpu
