// SPDX-License-Identifier: Apache-2.0
#include "framework/core/packing.h"

#include <algorithm>
#include <limits>

#include "framework/core/error.h"

namespace tapeformer {

Packing::Packing(const std::vector<int32_t>& lengths, std::vector<uint32_t> sample_ids) : sample_ids_(std::move(sample_ids)) {
  require(lengths.size() == sample_ids_.size(), "{} lengths and {} sample ids", lengths.size(), sample_ids_.size());
  int64_t total = 0;
  for (int32_t n : lengths) {
    require(n >= 0, "a sequence of length {}", n);
    total += n;
    if (total > std::numeric_limits<int32_t>::max())
      fail(ExitCode::resource, "a batch of more than {} rows; use a smaller batch", std::numeric_limits<int32_t>::max());
    offsets_.push_back(static_cast<int32_t>(total));
    longest_ = std::max(longest_, n);
  }
  positions_.reserve(static_cast<size_t>(total));
  row_samples_.reserve(static_cast<size_t>(total));
  for (size_t b = 0; b < lengths.size(); ++b)
    for (int32_t i = 0; i < lengths[b]; ++i) {
      positions_.push_back(i);
      row_samples_.push_back(sample_ids_[b]);
    }
}

const Packing& Packing::with_lengths(const std::vector<int32_t>& lengths) const {
  std::shared_ptr<const Packing>& made = derived_[lengths];
  if (!made) made = std::make_shared<const Packing>(lengths, sample_ids_);
  return *made;
}

const Packing& Packing::rows_each(int32_t count) const { return with_lengths(std::vector<int32_t>(sample_ids_.size(), count)); }

const Packing& Packing::longer_by(int32_t count) const {
  std::vector<int32_t> lengths;
  for (int b = 0; b < sequences(); ++b) lengths.push_back(length(b) + count);
  return with_lengths(lengths);
}

}  // namespace tapeformer
