// SPDX-License-Identifier: Apache-2.0
// The weights of heads that never hold them as a matrix, taken from what they make of columns of the identity as values.
#pragma once
#include <algorithm>

#include "framework/core/tensor.h"
#include "framework/ops/dispatch.h"

namespace tapeformer::models {

// heads(values) gives [n, H * D] for values [n, H * D] and is linear in them, head by head: its weights [H * n, n].
template <class Heads>
Tensor shown_weights(Dtype dtype, int64_t head_count, int64_t n, int64_t head_dim, Heads&& heads) {
  Tensor out(dtype, {head_count * n, n});
  for (int64_t first = 0; first < n; first += head_dim)
    ops::dispatch(dtype, [&]<class T>(T) {
      const Tensor values = Tensor::zeros(dtype, {n, head_count * head_dim});
      for (int64_t j = first; j < std::min(n, first + head_dim); ++j)
        for (int64_t h = 0; h < head_count; ++h) values.matrix<T>().row(j)[h * head_dim + j - first] = T{1};
      const Tensor o = heads(values);
      for (int64_t h = 0; h < head_count; ++h)
        for (int64_t i = 0; i < n; ++i)
          for (int64_t j = first; j < std::min(n, first + head_dim); ++j)
            out.matrix<T>().row(h * n + i)[j] = o.matrix<T>().row(i)[h * head_dim + j - first];
    });
  return out;
}

}  // namespace tapeformer::models
