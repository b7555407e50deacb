// SPDX-License-Identifier: Apache-2.0
// Heads whose queries are grouped by random bit codes, so that each group attends once (Vyas, Katharopoulos, Fleuret 2020, 2007.04825).
// What `clustered` and `improved_clustered` share.
#pragma once
#include "models/attention/index_lists.h"
#include "models/attention/redraws.h"
#include "models/attention/variant.h"

namespace tapeformer::models {

struct ClusteredSettings {
  int clusters = 100, bits = 32, iterations = 10;
  bool hash_bias = true;
  void read(config::Section& section);
};

class ClusteredHeads : public Heads {
 public:
  ClusteredHeads(const nn::Builder&, const HeadSettings&, const ClusteredSettings&);
  void visit(nn::Visitor& visitor) override { redraws_.visit(visitor); }
  void after_update(Context& context) override { redraws_.advance(context); }
  double pairs(int32_t n) const override { return static_cast<double>(n) * clusters_of(n); }
  AttentionCost cost(const std::vector<int32_t>& lengths) const override;
  std::vector<double> dense_weights(const DenseInput&) const override;

 protected:
  // Groups are numbered as they were drawn: clusters_of(n) for a sequence, of which some may be empty.
  struct Groups {
    Tensor of_query;                                // int32 [heads, T]
    const Packing* packing = nullptr;               // a row for each group of each sequence
    std::vector<ops::RowMapPointer> means, expand;  // [heads]: queries to the mean of their group; groups to their queries
    std::span<const int32_t> of(const Packing& rows, int b, int h) const {
      return {of_query.matrix<int32_t>().row(h) + rows.offsets()[static_cast<size_t>(b)], static_cast<size_t>(rows.length(b))};
    }
  };
  Groups group(Context&, const Tensor& q, const Packing&);
  // The groups with members, ascending.
  std::vector<int32_t> members_of(const Groups&, const Packing&, int b, int h) const;
  int32_t clusters_of(int32_t n) const { return std::min(own_.clusters, n); }
  const ClusteredSettings& own() const { return own_; }

  // For the oracle: softmax of a group's mean query over all keys, [n,n] with equal rows for the members of a group.
  std::vector<double> dense_groups(const DenseInput&) const;

 private:
  void draw();
  Tensor assign(Context&, const Tensor& q, const Packing&) const;

  ClusteredSettings own_;
  Redraws redraws_;
  Tensor planes_;       // [heads * bits, D + 1]: the last entry is what <plane, query> must exceed
  int64_t drawn_ = -1;  // the redraw that they are of
};

}  // namespace tapeformer::models
