// SPDX-License-Identifier: Apache-2.0
// Clustered attention (Vyas, Katharopoulos, Fleuret 2020, 2007.04825): queries are grouped, and every query gets what its group's mean
// query would get.
#include "framework/ops/attention.h"
#include "framework/ops/columns.h"
#include "models/attention/clustered_heads.h"

namespace tapeformer::models {
namespace {

class Clustered : public ClusteredHeads {
 public:
  using ClusteredHeads::ClusteredHeads;

  HeadOutput forward(Context& context, HeadInput& input) override {
    const HeadSettings& s = settings();
    const Packing& packing = input.packing;
    const int64_t width = int64_t{s.heads} * s.head_dim;
    const auto part = [&](int64_t p) { return ops::columns(context, input.projected, {{p * width, width}}); };
    const Variable q = part(0);
    const Groups groups = group(context, q.value, packing);
    ops::AttentionPart plans;
    for (int b = 0; b < packing.sequences(); ++b)
      for (int h = 0; h < s.heads; ++h) {
        std::vector<int32_t> rows = members_of(groups, packing, b, h);
        TilePlan plan = full_plan(static_cast<int32_t>(rows.size()), packing.length(b));
        plan.query_rows = std::move(rows);
        plans.push_back(std::make_shared<const TilePlan>(std::move(plan)));
      }
    const Variable o = ops::cross_attention(context, ops::sparse_rows(context, q, groups.means, s.heads), part(1), part(2), *groups.packing,
                                            packing, plans, softmax("cluster_dropout"));
    return ops::sparse_rows(context, o, groups.expand, s.heads);
  }
};

}  // namespace

AttentionVariant clustered_variant() { return variant<Clustered, ClusteredSettings>("clustered", true); }

}  // namespace tapeformer::models
