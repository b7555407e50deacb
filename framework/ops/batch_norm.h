// SPDX-License-Identifier: Apache-2.0
// BatchNorm of x [T,C] over its rows, with the statistics of the batch or given ones.
#pragma once
#include "framework/ops/linear.h"

namespace tapeformer::ops {

struct BatchNormResult {
  Variable y;
  Tensor mean, m2;  // [C] of this batch, in the context's dtype; the caller moves its running statistics
};
// Fails unless there are at least 2 rows: one row has no variance.
BatchNormResult batch_norm_batch(Context&, const Variable& x, const NormParameters&);
// Normalises with given mean [C] and variance [C] (frozen or evaluation).
Variable batch_norm_fixed(Context&, const Variable& x, const NormParameters&, const Tensor& mean, const Tensor& variance);

}  // namespace tapeformer::ops
