// SPDX-License-Identifier: Apache-2.0
// What a forward pass carries down beside its data: where to run, whether to record, and the coordinates of random draws.
#pragma once
#include <functional>
#include <string_view>

#include "framework/autograd/tape.h"
#include "framework/core/packing.h"
#include "framework/kernels/dropout.h"

namespace tapeformer {

enum class Mode : uint8_t {
  train,      // dropout on, BatchNorm uses and records the batch's statistics
  evaluate,   // dropout off, running statistics
  calibrate,  // dropout off, BatchNorm uses and records the batch's statistics, nothing else changes
};

struct Context {
  Execution on;
  Tape* tape = nullptr;  // null: record nothing
  Mode mode = Mode::evaluate;
  uint64_t seed = 0;
  uint32_t step = 0;  // number of the update, from 1; the same for all micro-batches of a group
  Dtype dtype = Dtype::f32;
  // Called by layers with each of their results when set; a run that met a NaN repeats its step with it to name the first bad tensor.
  std::function<void(std::string_view name, const Tensor&)> inspect;

  bool records(const Variable& v) const { return tape && v.node != no_node; }
  bool records(const Parameter& p) const { return tape && p.trainable; }
  bool draws_dropout(double p) const { return mode == Mode::train && p > 0; }
  // The draw of `<purpose>:<name>` for the rows of `packing`; off outside training.
  DropoutDraw dropout(double p, std::string_view purpose, std::string_view name, const Packing& packing) const;
};

}  // namespace tapeformer
