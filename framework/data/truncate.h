// SPDX-License-Identifier: Apache-2.0
// Which rows of a too long sequence stay: right cuts off the end, left the beginning, middle keeps both ends.
#pragma once
#include <cstdint>
#include <string_view>

#include "framework/data/dataset.h"

namespace tapeformer::data {

struct Kept {
  int64_t head = 0, tail = 0;  // rows kept at the beginning and at the end
  int64_t rows() const { return head + tail; }
};

// `most` 0: no limit. Error(data) naming `where` when the sequence is too long and the policy is error. `text`, for byte sequences only,
// moves the cuts to borders of its UTF-8 characters, so that fewer than `most` rows may stay.
Kept kept_rows(int64_t length, int64_t most, Truncate policy, std::string_view where, std::string_view text = {});

}  // namespace tapeformer::data
