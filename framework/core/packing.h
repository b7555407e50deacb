// SPDX-License-Identifier: Apache-2.0
// How the sequences of a batch lie in one array of T rows, without padding. Immutable, made once a batch.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace tapeformer {

class Packing {
 public:
  Packing() = default;
  // Lengths >= 0 of the sequences in their order; sample_ids (row numbers in the data set) name them for random draws.
  Packing(const std::vector<int32_t>& lengths, std::vector<uint32_t> sample_ids);

  int sequences() const { return static_cast<int>(sample_ids_.size()); }  // B
  int32_t rows() const { return offsets_.back(); }                        // T
  int32_t longest() const { return longest_; }
  int32_t length(int b) const { return offsets_[b + 1] - offsets_[b]; }
  const std::vector<int32_t>& offsets() const { return offsets_; }         // [B + 1]
  const std::vector<uint32_t>& sample_ids() const { return sample_ids_; }  // [B]
  const std::vector<int32_t>& positions() const { return positions_; }     // [T], place of a row in its own sequence
  const std::vector<uint32_t>& row_samples() const { return row_samples_; }  // [T], sample id of a row's sequence
  // The same sequences with other lengths: keys that were pooled, one row each, extra rows in front. Lives as long as this packing or a
  // copy of it (closures on the tape may refer to it). Made on first use, from one thread.
  const Packing& with_lengths(const std::vector<int32_t>& lengths) const;
  // `count` rows for each sequence.
  const Packing& rows_each(int32_t count) const;
  const Packing& one_row_each() const { return rows_each(1); }
  // Each sequence longer by `count` rows.
  const Packing& longer_by(int32_t count) const;

 private:
  std::vector<int32_t> offsets_{0};
  std::vector<uint32_t> sample_ids_;
  std::vector<int32_t> positions_;
  std::vector<uint32_t> row_samples_;
  int32_t longest_ = 0;
  mutable std::map<std::vector<int32_t>, std::shared_ptr<const Packing>> derived_;  // by lengths
};

}  // namespace tapeformer
