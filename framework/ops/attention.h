// SPDX-License-Identifier: Apache-2.0
// Softmax attention by tile plans, and linear attention, over packed q, k, v [T, H*D] (strided views of one projection are welcome).
#pragma once
#include <vector>

#include "framework/autograd/context.h"
#include "framework/kernels/tile_plan.h"

namespace tapeformer::ops {

struct AttentionSettings {
  int heads = 1;
  double scale = 1;
  double dropout = 0;
  std::string_view name;  // of the module, for the dropout's keys
};
// A plan for each sequence of the packing.
using AttentionPart = std::vector<PlanPointer>;
// Returns o [T, H*D].
Variable attention(Context&, const Variable& q, const Variable& k, const Variable& v, const Packing&, const AttentionPart&,
                   const AttentionSettings&);
// The same on one array qkv [T, 3*H*D] (q, k, v side by side), whose gradient is then written in place.
Variable attention(Context&, const Variable& qkv, const Packing&, const AttentionPart&, const AttentionSettings&);

Variable linear_attention(Context&, const Variable& q, const Variable& k, const Variable& v, const Packing&, int heads, double epsilon);
Variable linear_attention(Context&, const Variable& qkv, const Packing&, int heads, double epsilon);

}  // namespace tapeformer::ops
