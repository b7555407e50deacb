// SPDX-License-Identifier: Apache-2.0
// The key `max_length` of variants whose parameters belong to positions.
#pragma once
#include "framework/config/section.h"
#include "models/attention/attention.h"

namespace tapeformer::models {

struct MaxLength {
  int64_t rows = 0;  // 0: as many as the data's longest sequence
  std::string key;   // "model.attention.mixer.max_length", for messages

  void read(config::Section& section) {
    section.number_or_word("max_length", rows, "auto", 0, config::between(1, 1 << 24), "the most rows of a sequence; auto: the data's");
    key = section.path("max_length");
  }
  // The extra rows of the layer included. Error(usage) where the data's sequences are longer.
  int64_t of(const AttentionSettings& layer) const {
    const int64_t needed = layer.max_length + layer.extra_rows;
    if (rows != 0 && rows < needed)
      fail(ExitCode::usage, "'{}' is {}, but 'data.max_length' {} and {} extra rows make sequences of {} rows; raise the one or lower the other",
           key, rows, layer.max_length, layer.extra_rows, needed);
    return rows == 0 ? needed : rows;
  }
  // Error(data) where a sequence is longer than `most`.
  void check(const Packing& packing, int64_t most) const {
    if (packing.longest() > most)
      fail(ExitCode::data, "a sequence of {} rows, but '{}' allows {}; cut it by 'data.max_length' and 'data.truncate'", packing.longest(), key,
           most);
  }
};

}  // namespace tapeformer::models
