// SPDX-License-Identifier: Apache-2.0
// The key `max_length` of variants for which the number of a row's place matters: parameters that belong to positions, tables, constants.
#pragma once
#include "models/attention/variant.h"

namespace tapeformer::models {

struct MaxLength {
  int64_t rows = 0;  // 0: not given
  std::string key;   // "model.attention.mixer.max_length", for messages

  void read(config::Section& section, std::string_view word = "auto",
            std::string_view help = "the most rows of a sequence; auto: the data's") {
    section.number_or_word("max_length", rows, word, 0, config::between(1, 1 << 24), help);
    key = section.path("max_length");
  }
  // Where the config says how long the data's sequences are, longer ones than these are a fault of the config.
  void check(config::Section& section, const Choice& choice) const {
    if (choice.layer.max_length > 0 && too_short(choice.layer)) section.fault("max_length", conflict(choice.layer));
  }
  // The extra rows of the layer included. Error(usage) where the data's sequences are longer.
  int64_t of(const AttentionSettings& layer) const {
    if (too_short(layer)) fail(ExitCode::usage, "{}", conflict(layer));
    return rows == 0 ? needed(layer) : rows;
  }
  // Error(data) where a sequence is longer than `most`.
  void check(const Packing& packing, int64_t most) const {
    if (packing.longest() > most)
      fail(ExitCode::data, "a sequence of {} rows, but '{}' allows {}; cut it by 'data.max_length' and 'data.truncate'", packing.longest(), key,
           most);
  }

 private:
  static int64_t needed(const AttentionSettings& layer) { return layer.max_length + layer.extra_rows; }
  bool too_short(const AttentionSettings& layer) const { return rows != 0 && rows < needed(layer); }
  std::string conflict(const AttentionSettings& layer) const {
    return fmt::format("'{}' is {}, but 'data.max_length' {} and {} extra rows make sequences of {} rows; raise the one or lower the other",
                       key, rows, layer.max_length, layer.extra_rows, needed(layer));
  }
};

}  // namespace tapeformer::models
