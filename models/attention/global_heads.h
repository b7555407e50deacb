// SPDX-License-Identifier: Apache-2.0
// Heads with global rows: some rows of a sequence, by default the first, see every row and are seen by every row; the others see a window
// besides (Beltagy, Peters, Cohan 2020, 2004.05150, section 3.1). What `global`, `longformer` and `global_external` share.
#pragma once
#include "framework/config/section.h"
#include "models/attention/planned_heads.h"
#include "models/attention/variant.h"

namespace tapeformer::models {

struct GlobalPattern {
  int skipped = 0;           // rows in front that are not the sequence's own: learned rows of other layers, never global here
  int count = 1;             // global rows: the first of a sequence, at most all
  std::vector<int> rows = {};  // and those at these places, negative ones from the end; a place that a sequence lacks is left out
  int left = 0, right = 0;     // the window of the others, without themselves: so many keys
  std::vector<int> stride = {1};  // from one key of the window to the next; for all heads, or for each
  bool own_projections = false;  // global rows are queries, and look at keys and values, by projections of their own
};

// Reads `rows`: the places of global rows beside the first `count`.
inline void read_global_rows(config::Section& section, std::vector<int>& rows) {
  section.field("rows", rows, config::between(-(1 << 30), 1 << 30),
                "further global rows by their places from 0, negative ones from the end (-1: the last)");
}

// Rows counted from the end are other rows once the sequence has grown: no causal heads may have them.
void check_global_rows(config::Section&, const std::vector<int>& rows, const Choice&);

class GlobalHeads : public PlannedHeads {
 public:
  GlobalHeads(const nn::Builder&, const HeadSettings&, const GlobalPattern&);
  HeadOutput forward(Context&, HeadInput&) override;
  void visit(nn::Visitor&) override;
  AttentionCost cost(const std::vector<int32_t>& lengths) const override;
  double pairs(int32_t n) const override;
  InputReaders input_readers() override;
  bool in_pattern(int32_t n, int head, int32_t i, int32_t j) const override;
  std::vector<double> dense_output(const DenseInput&) const override;

 protected:
  std::vector<TilePlan> parts(int32_t n, int head) const override;
  bool differs_by_head() const override { return pattern_.stride.size() > 1; }

 private:
  struct Projection {
    Parameter weight, bias;  // [heads * D, C], [heads * D]
  };
  Projection start(const nn::Builder&, const std::string& part) const;
  std::vector<int32_t> global_rows(int32_t n) const;  // rising
  bool is_global(int32_t n, int32_t i) const;
  // Window and global keys of the rows that are not global; of a dilated window, without those that are.
  TilePlan window_and_global(int32_t n, const std::vector<int32_t>& global, bool window) const;
  TilePlan dilated_window(int32_t n, const std::vector<int32_t>& global, int stride) const;
  Variable of_global_rows(Context&, HeadInput&, const ops::RowMapPointer& gather, const std::vector<std::vector<int32_t>>& global);

  GlobalPattern pattern_;
  std::vector<Projection> own_;  // query, key, value; empty when they are the layer's
};

}  // namespace tapeformer::models
