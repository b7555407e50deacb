// SPDX-License-Identifier: Apache-2.0
// Losses return a SUM over targets and what it must be divided by, so that micro-batches need no foresight: the trainer divides once.
#pragma once
#include "framework/autograd/context.h"

namespace tapeformer::ops {

struct Loss {
  Variable sum;      // [1]
  double count = 0;  // sum of the weights of the targets that counted
  Tensor per_row;    // [M] losses, to name the rows of a bad one
  double auxiliary = 0;  // the part of the sum that is not the targets' but the model's own
};

struct CrossEntropySettings {
  Tensor class_weights;  // [K] in the context's dtype, or undefined
  Tensor row_weights;    // [M] in the context's dtype, or undefined
  double label_smoothing = 0;
};
// logits [M,K], targets [M] int32 in 0 .. K-1 or kernels::ignored_target; anything else is Error(data) with its row.
Loss cross_entropy(Context&, const Variable& logits, const Tensor& targets, const CrossEntropySettings&);

// Sum over rows and columns of w_r (x - target)^2 / K, count = sum of w_r; x, target [M,K] (target float32 or the context's dtype).
Loss mean_squared_error(Context&, const Variable& x, const Tensor& target, const Tensor& row_weights);

}  // namespace tapeformer::ops
