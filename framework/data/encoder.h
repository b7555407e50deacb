// SPDX-License-Identifier: Apache-2.0
// New samples for a trained model: text or numbers turned into what the model was trained on, by the description in its checkpoint.
// Data sets encode their samples with it too, so both see the same.
#pragma once
#include <string>
#include <string_view>

#include "framework/data/dataset.h"
#include "framework/data/tokenizer.h"

namespace tapeformer::data {

class SampleEncoder {
 public:
  // The description must outlive the encoder.
  explicit SampleEncoder(const Description&);
  // Tokens of one text, truncated by the description's policy; `where` ("line 3", "row 7") is for errors. A text without tokens is
  // Error(data), or with the policy skip leaves `out.tokens` empty: the caller leaves the sample out. The same holds for the other two.
  void encode_text(std::string_view text, std::string_view where, Sample& out);
  // Already split tokens (tagging), one row each. Tags in `out`, where there are any, are cut like the tokens.
  void encode_tokens(const std::vector<std::string>& tokens, std::string_view where, Sample& out);
  // values [length, F] raw (what is not a finite float32 is missing); standardised, flags added, truncated. F: raw_features().
  void encode_values(std::vector<double> values, int64_t length, std::string_view where, Sample& out);
  // Features as the file has them: without the flag columns of zero_with_flag, which stand behind them in the description.
  int64_t raw_features() const;
  int64_t tokens_seen() const { return seen_; }
  int64_t tokens_unknown() const { return unknown_; }
  int64_t truncated() const { return truncated_; }
  int64_t missing() const { return missing_; }

 private:
  void cut(std::string_view where, Sample& out);
  void check_empty(bool empty, std::string_view where) const;

  const Description& description_;
  Tokenizer tokenizer_;
  int64_t seen_ = 0, unknown_ = 0, truncated_ = 0, missing_ = 0;
};

// True when the number is a finite float32.
bool is_usable(double value);

}  // namespace tapeformer::data
