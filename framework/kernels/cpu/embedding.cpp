// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/embedding.h"

#include <algorithm>

#include "framework/kernels/cpu/blocks.h"

namespace tapeformer::kernels {

template <>
void EmbeddingForward<float>::cpu(const Execution& on, const int32_t* index, View<const float> table, View<float> y, Write write) {
  parallel_blocks(*on.threads, y.rows, cpu::pass_rows(y.columns), [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      const float* from = table.row(index[t]);
      float* to = y.row(t);
      if (write == Write::overwrite) std::copy_n(from, y.columns, to);
      else
        for (int64_t c = 0; c < y.columns; ++c) to[c] += from[c];
    }
  });
}

// A task owns a slice of the columns and takes the tokens in their order: nothing to sort, and frequent tokens leave the tasks equal.
template <>
void EmbeddingBackward<float>::cpu(const Execution& on, const int32_t* index, View<const float> dy, View<float> dtable) {
  constexpr int64_t slice = 32;
  parallel_blocks(*on.threads, dy.columns, slice, [&](int64_t first, int64_t last) {
    for (int64_t t = 0; t < dy.rows; ++t) {
      const float* from = dy.row(t);
      float* to = dtable.row(index[t]);
      for (int64_t c = first; c < last; ++c) to[c] += from[c];
    }
  });
}

}  // namespace tapeformer::kernels
