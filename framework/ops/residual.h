// SPDX-License-Identifier: Apache-2.0
// Gradients of y = residual + f(x): the residual's is dy itself, and f's kernel adds on top of it where x is the residual.
#pragma once
#include "framework/autograd/context.h"

namespace tapeformer::ops {

// Hands dy to the residual and says where the kernel puts dx; finish() hands over what the constructor could not.
class ResidualTarget {
 public:
  ResidualTarget(Tape& tape, const Variable& x, int residual, const Tensor& gradient);
  const Tensor& tensor() const { return dx_.tensor; }
  kernels::Write write() const { return dx_.write; }
  void finish(Tape& tape);

 private:
  GradientTarget dx_;
  int node_ = no_node;  // that still waits for dx
};

}  // namespace tapeformer::ops
