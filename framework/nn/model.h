// SPDX-License-Identifier: Apache-2.0
// What a trainer knows of a model.
#pragma once
#include <string>
#include <vector>

#include "framework/autograd/context.h"
#include "framework/data/batch.h"
#include "framework/nn/visitor.h"
#include "framework/ops/loss.h"

namespace tapeformer::nn {

// One line of `model summary`: arithmetic of a forward pass over a batch, by part.
struct Cost {
  std::string part;
  int64_t parameters = 0;
  double forward_flops = 0;   // a multiply-add counts 2
  double backward_flops = 0;
  double saved_bytes = 0;     // kept from forward to backward
  double pairs = 0;           // (query, key) pairs that attention looks at, mean over its heads
};

class Model {
 public:
  virtual ~Model() = default;
  // Logits or values: [B,K]; a tagger gives [T,K].
  virtual Variable forward(Context&, const data::Batch&) = 0;
  virtual ops::Loss loss(Context&, const Variable& output, const data::Batch&) = 0;
  // What the loss of the batch is divided by, known before its forward pass.
  virtual double target_count(const data::Batch&) const = 0;
  // Whether the loss has terms of the model's own, whose micro-batches need Context::group.
  virtual bool has_auxiliary() const { return false; }
  virtual void visit(Visitor&) = 0;
  // After each update: redraws, centroid moves. Never in forward.
  virtual void after_update(Context&) {}
  // Folds what inference does not need (BatchNorm); the model is then only good for Mode::evaluate. Returns the number of layers folded.
  virtual int prepare_inference() { return 0; }
  virtual std::vector<Cost> cost(const std::vector<int32_t>& lengths) const = 0;
};

}  // namespace tapeformer::nn
