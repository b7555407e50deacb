// SPDX-License-Identifier: Apache-2.0
// New samples for a trained model: text or numbers turned into what the model was trained on, by the description in its checkpoint.
#pragma once
#include <string>
#include <string_view>

#include "framework/data/dataset.h"
#include "framework/data/tokenizer.h"

namespace tapeformer::data {

class SampleEncoder {
 public:
  explicit SampleEncoder(const Description&);
  // Tokens of one text, truncated by the description's policy; `where` ("line 3", "row 7") is for errors.
  void encode_text(std::string_view text, std::string_view where, Sample& out);
  // Already split tokens (tagging), one row each.
  void encode_tokens(const std::vector<std::string>& tokens, std::string_view where, Sample& out);
  // values [length, F] raw (NaN = missing); standardised, flags added, truncated.
  void encode_values(std::vector<double> values, int64_t length, std::string_view where, Sample& out);
  int64_t tokens_seen() const { return seen_; }
  int64_t tokens_unknown() const { return unknown_; }
  int64_t truncated() const { return truncated_; }

 private:
  const Description& description_;
  Tokenizer tokenizer_;
  int64_t seen_ = 0, unknown_ = 0, truncated_ = 0;
};

}  // namespace tapeformer::data
