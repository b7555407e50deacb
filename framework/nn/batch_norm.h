// SPDX-License-Identifier: Apache-2.0
// BatchNorm over the real rows of a packed batch, with running statistics that can be frozen.
#pragma once
#include "framework/nn/linear.h"
#include "framework/ops/batch_norm.h"

namespace tapeformer::nn {

struct BatchNormSettings {
  double momentum = 0.9;  // weight of the old value: running <- momentum running + (1 - momentum) batch (PyTorch's number is 1 - momentum)
  double epsilon = 1e-5;
  bool freeze = false;      // running statistics in training too, never updated
  int64_t freeze_from = 0;  // > 0: frozen from this update on
  bool frozen(int64_t step) const { return freeze || (freeze_from > 0 && step >= freeze_from); }
};

struct BatchNorm {
  std::string name;
  Parameter weight, bias;                                 // gain and shift [C]
  Buffer running_mean, running_var, num_batches_tracked;  // PyTorch's names; the variance is the unbiased estimate
  BatchNormSettings settings;

  BatchNorm(const Builder& build, const std::string& name, int64_t channels, const BatchNormSettings& settings);
  // Training and calibration use the batch's statistics (biased variance) and move the running ones, unless frozen; evaluation uses the
  // running ones.
  Variable forward(Context& context, const Variable& x);
  bool frozen(uint32_t step) const { return running_mean.frozen || settings.frozen(step); }
  void visit(Visitor& visitor);
  // Puts the frozen normalisation into a linear layer that reads it: W' = W diag(s), b' = b + W t, with
  // s = gain / sqrt(running_var + epsilon) and t = shift - running_mean s.
  void fold_into(const Tensor& weight /*[N,C]*/, const Tensor& bias /*[N]*/) const;

 private:
  void move_statistics(Mode mode, int64_t rows, const Tensor& mean, const Tensor& m2);
};

// By what its visit() tells: whether it uses the running statistics in the training of this step.
bool is_frozen(const LayerFacts& of_batch_norm, int64_t step);
// How many a model has, and how many of them use each batch's own statistics at this step.
struct BatchNorms {
  int64_t all = 0, own = 0;
};
BatchNorms batch_norms(const ModelState&, int64_t step);

}  // namespace tapeformer::nn
