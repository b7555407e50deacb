// SPDX-License-Identifier: Apache-2.0
// Blocks of rows mixed by a matrix over blocks (Sparse Sinkhorn Attention: Tay, Bahri, Yang, Metzler, Juan 2020, 2002.11296).
#pragma once
#include "framework/core/device.h"
#include "framework/core/packing.h"
#include "framework/core/tensor.h"
#include "framework/kernels/write.h"

namespace tapeformer::kernels {

// A sequence of n rows has m = ceil(n / block) blocks, the last one perhaps shorter; head h has the columns h * head_dim ... of x and the
// columns h * width ... h * width + m - 1 of the matrices p.
struct SortedBlocksCall {
  const Packing* sequences = nullptr;
  const Packing* blocks = nullptr;  // lengths m
  int32_t block = 1;
  int heads = 1, head_dim = 0;
  int64_t width = 0;
  int32_t most = 0;  // sorted blocks that are made: the first min(m, most)
  bool own = true;   // the sequence's own rows follow its sorted blocks

  int32_t made(int b) const { return blocks->length(b) < most ? blocks->length(b) : most; }
  int32_t result_rows(int b) const { return made(b) * block + (own ? sequences->length(b) : 0); }
  // Slots of a block that the last block has too.
  int32_t full_slots(int b) const { return sequences->length(b) - (blocks->length(b) - 1) * block; }
};

// Slot t of sorted block u: sum over the blocks v that have a row t of p_uv x_v[t], divided by w, the sum of the same p_uv; 0 where w = 0. Then
// the own rows. weights [M, 2 * heads]: for each block row u and head h, w of the slots that all blocks have in column h and of the others in
// column heads + h (0 for blocks that are not made).
template <class T>
struct SortedBlocksForward {
  static void reference(const Execution&, const SortedBlocksCall&, View<const T> p, View<const T> x, View<T> out, View<T> weights);
  static void cpu(const Execution&, const SortedBlocksCall&, View<const T> p, View<const T> x, View<T> out, View<T> weights);
};

// With G = dout / w: dp_uv (+)= sum over t of <G_u[t], x_v[t] - out_u[t]>, dx_v[t] += sum over u of p_uv G_u[t], slots with w = 0 left out. Own
// rows pass on. dp is 0 outside of the matrices when overwritten; dx is always added to. dp or dx without data: nobody asked.
template <class T>
struct SortedBlocksBackward {
  static void reference(const Execution&, const SortedBlocksCall&, View<const T> p, View<const T> x, View<const T> dout, View<T> dp, Write,
                        View<T> dx);
  static void cpu(const Execution&, const SortedBlocksCall&, View<const T> p, View<const T> x, View<const T> dout, View<T> dp, Write,
                  View<T> dx);
};

}  // namespace tapeformer::kernels
