// SPDX-License-Identifier: Apache-2.0
// Linear attention on feature maps: random features (Performer, RFA), cosFormer's, Efficient Attention's softmaxes, or features made
// elsewhere. The formulas: framework/kernels/feature_attention.h and causal_feature_attention.h. Features of the built-in maps are made a few
// rows at a time and never kept.
#pragma once
#include <vector>

#include "framework/autograd/context.h"
#include "framework/kernels/feature_attention.h"

namespace tapeformer::ops {

struct FeatureAttentionSettings {
  int heads = 1;
  FeatureMap map = FeatureMap::given;
  int features = 0;  // M, for maps with a matrix; others have it from q
  double offset = 0;
  Denominator denominator = Denominator::add;
  double epsilon = 0;
  std::vector<double> lengths;  // cosine: the constant of each sequence, at least its length
  bool causal = false;          // a row sees the rows up to itself
};

// What exp subtracts; a constant of the backward. query [heads, T], key [B, heads, M], or [heads, T, 1 or M] where causal.
struct FeatureShifts {
  Tensor query, key;
};

// q, k [T, H*D'], v [T, H*D] or all in one array [T, 3*H*D]; matrix [heads * matrix_rows, D'], undefined where the map has none.
// Returns o [T, H*D]. `shifts` are used if given, else found: finding and using them is one pass.
Variable feature_attention(Context&, const Variable& q, const Variable& k, const Variable& v, const Variable& matrix, const Packing&,
                           const FeatureAttentionSettings&, const FeatureShifts* shifts = nullptr);
Variable feature_attention(Context&, const Variable& qkv, const Variable& matrix, const Packing&, const FeatureAttentionSettings&,
                           const FeatureShifts* shifts = nullptr);
// The shifts that feature_attention would find.
FeatureShifts feature_shifts(Context&, const Tensor& qkv, const Tensor& matrix, const Packing&, const FeatureAttentionSettings&);

}  // namespace tapeformer::ops
