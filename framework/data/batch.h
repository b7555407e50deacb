// SPDX-License-Identifier: Apache-2.0
// What a model gets for one step: the packed rows of some samples and what is to be learned from them.
#pragma once
#include <cstdint>

#include "framework/core/packing.h"
#include "framework/core/tensor.h"

namespace tapeformer::data {

constexpr int32_t ignored_target = -100;  // of a row that is not to be learned; PyTorch's number

struct Batch {
  Packing packing;
  Tensor tokens;   // [T] int32; or
  Tensor values;   // [T,F] float32
  Tensor targets;  // class: [B] int32; regression: [B,K] float32; tagging: [T] int32, or ignored_target; undefined when predicting
  Tensor weights;  // [B] float32, or undefined: all 1
};

}  // namespace tapeformer::data
