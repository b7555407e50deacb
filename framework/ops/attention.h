// SPDX-License-Identifier: Apache-2.0
// Softmax attention by tile plans, and linear attention, over packed q, k, v [T, H*D] (strided views of one projection are welcome).
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "framework/autograd/context.h"
#include "framework/kernels/tile_plan.h"

namespace tapeformer::ops {

struct AttentionSettings {
  int heads = 1;
  double scale = 1;
  double dropout = 0;
  std::string_view name;                           // of the module, for the dropout's keys
  int first_head = 0;                              // number in the layer of this call's head 0, for the same
  std::string_view purpose = "attention_dropout";  // the same
};

// One part of a softmax: a plan for every sequence, [B] (shared by the heads) or [B * heads] (plan b * heads + h). A plan without row lists
// has as many queries and keys as the sequence has rows, or none.
using AttentionPart = std::vector<PlanPointer>;

// o [T, H*D] of self attention over one part. A row that the part does not list gets o = 0 and no gradient, so calls over disjoint rows can
// be added.
Variable attention(Context&, const Variable& q, const Variable& k, const Variable& v, const Packing&, const AttentionPart&,
                   const AttentionSettings&);
// The same on one array qkv [T, 3*H*D] (q, k, v side by side), whose gradient is then written in place.
Variable attention(Context&, const Variable& qkv, const Packing&, const AttentionPart&, const AttentionSettings&);
// One softmax over the union of at least one part. A (query, key) pair of rows that stands in several parts counts as often.
Variable attention(Context&, const Variable& q, const Variable& k, const Variable& v, const Packing&, std::span<const AttentionPart>,
                   const AttentionSettings&);
Variable attention(Context&, const Variable& qkv, const Packing&, std::span<const AttentionPart>, const AttentionSettings&);
// Queries of one packing over keys of another, sequence by sequence: q [queries.rows(), H*D], k and v [keys.rows(), H*D].
Variable cross_attention(Context&, const Variable& q, const Variable& k, const Variable& v, const Packing& queries, const Packing& keys,
                         const AttentionPart&, const AttentionSettings&);

Variable linear_attention(Context&, const Variable& q, const Variable& k, const Variable& v, const Packing&, int heads, double epsilon);
Variable linear_attention(Context&, const Variable& qkv, const Packing&, int heads, double epsilon);

}  // namespace tapeformer::ops
