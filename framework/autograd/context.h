// SPDX-License-Identifier: Apache-2.0
// What a forward pass carries down beside its data: where to run, whether to record, and the coordinates of random draws.
#pragma once
#include <functional>
#include <map>
#include <string>
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

// What a pass decided from its data (sorted orders, assignments, stabilisers), by name.
using Structures = std::map<std::string, Tensor>;

// Of all micro-batches of an update.
struct GroupTotals {
  double targets = 0;  // what the sum of the losses is divided by
  int64_t samples = 0, rows = 0;
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
  // When set, a pass keeps its structures here and one that finds them uses them instead of deciding again: for looking at them, and for
  // differences of a function that is only smooth while they stay.
  Structures* structures = nullptr;
  // Set where the batch is one of several micro-batches and the model needs to know of the others.
  const GroupTotals* group = nullptr;

  Profile* profile = nullptr;  // when set, every op reports its time and work

  bool records(const Variable& v) const { return tape && v.node != no_node; }
  bool records(const Parameter& p) const { return tape && p.trainable; }
  bool draws_dropout(double p) const { return mode == Mode::train && p > 0; }
  // make(), or what was kept under this name.
  template <class Make>
  Tensor structure(const std::string& name, Make&& make) const {
    if (!structures) return make();
    const auto [at, fresh] = structures->try_emplace(name);
    if (fresh) at->second = make();
    return at->second;
  }
  // The draw of `<purpose>:<name>` for the rows of `packing`; off outside training.
  DropoutDraw dropout(double p, std::string_view purpose, std::string_view name, const Packing& packing) const;
};

template <class F>
ProfileScope::ProfileScope(const Context& context, std::string_view op, F&& work) : profile_(context.profile) {
  if (profile_) begin(op, Pass::forward, work(), context.tape);
}

}  // namespace tapeformer
