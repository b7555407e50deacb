// SPDX-License-Identifier: Apache-2.0
#include "models/attention/point_attention.h"

#include <cmath>

#include "framework/ops/columns.h"
#include "framework/ops/sparse_rows.h"
#include "models/attention/fewer_keys.h"
#include "models/attention/index_lists.h"
#include "models/attention/shown_weights.h"

namespace tapeformer::models {

Variable PointAttention::repeated(Context& context, const Variable& points, const Packing& packing) const {
  return ops::sparse_rows(context, points, std::make_shared<const RowMap>(gather_map(points_, packing.rows_each(points_).positions())));
}

Variable PointAttention::part(Context& context, const Variable& projected, int i) const {
  return ops::columns(context, projected, {{i * layer_.dim, layer_.dim}});
}

ops::AttentionSettings PointAttention::softmax(std::string_view purpose) const {
  const double scale = 1 / std::sqrt(static_cast<double>(layer_.dim) / layer_.heads);
  return {.heads = layer_.heads, .scale = scale, .dropout = layer_.dropout, .name = name_, .purpose = purpose};
}

Variable PointAttention::gather(Context& context, const Variable& query, const Variable& key, const Variable& value,
                                const Packing& packing) const {
  const Packing& points = packing.rows_each(points_);
  return ops::cross_attention(context, query, key, value, points, packing, full_part(points, packing), softmax("pack_dropout"));
}

Variable PointAttention::give_back(Context& context, const Variable& query, const Variable& key, const Variable& value,
                                   const Packing& packing) const {
  const Packing& points = packing.rows_each(points_);
  return ops::cross_attention(context, query, key, value, packing, points, full_part(packing, points), softmax("attention_dropout"));
}

Tensor PointAttention::weights(Context& context, const Variable& gather_query, const Variable& gather_key, const Variable& query,
                               const Variable& key, const Packing& packing) const {
  return shown_weights(context.dtype, layer_.heads, packing.rows(), layer_.dim / layer_.heads, [&](const Tensor& values) {
    return give_back(context, query, key, gather(context, gather_query, gather_key, {values, no_node}, packing), packing).value;
  });
}

}  // namespace tapeformer::models
