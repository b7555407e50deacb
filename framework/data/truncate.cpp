// SPDX-License-Identifier: Apache-2.0
#include "framework/data/truncate.h"

#include "framework/core/error.h"
#include "framework/core/utf8.h"

namespace tapeformer::data {
namespace {

// True for a byte inside a character, where no cut may fall.
bool continues(std::string_view text, int64_t at) {
  return at > 0 && at < static_cast<int64_t>(text.size()) && continues_utf8(text[static_cast<size_t>(at)]);
}

}  // namespace

Kept kept_rows(int64_t length, int64_t most, Truncate policy, std::string_view where, std::string_view text) {
  if (most <= 0 || length <= most) return {length, 0};
  Kept kept;
  switch (policy) {
    case Truncate::error:
      fail(ExitCode::data,
           "{}: a sequence of {} rows, the longest allowed is {}; set data.truncate to right, left or middle, or train with a larger "
           "data.max_length",
           where, length, most);
    case Truncate::right:
      kept.head = most;
      break;
    case Truncate::left:
      kept.tail = most;
      break;
    case Truncate::middle:
      kept.head = (most + 1) / 2;
      kept.tail = most / 2;
      break;
  }
  while (continues(text, kept.head)) --kept.head;
  while (kept.tail > 0 && continues(text, length - kept.tail)) --kept.tail;
  return kept;
}

}  // namespace tapeformer::data
