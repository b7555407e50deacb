// SPDX-License-Identifier: Apache-2.0
#include "framework/data/encoder.h"

#include <cmath>
#include <limits>

#include "framework/core/error.h"
#include "framework/data/truncate.h"

namespace tapeformer::data {
namespace {

// Keeps `kept` of the `length` rows of `columns` values each.
template <class T>
void keep(std::vector<T>& rows, const Kept& kept, int64_t length, int64_t columns) {
  rows.erase(rows.begin() + kept.head * columns, rows.begin() + (length - kept.tail) * columns);
}

}  // namespace

bool is_usable(double value) { return std::abs(value) <= static_cast<double>(std::numeric_limits<float>::max()); }

SampleEncoder::SampleEncoder(const Description& description)
    : description_(description),
      tokenizer_(description.vocab_size > 0 ? Tokenizer::from_json(description.tokenizer_json) : Tokenizer(TokenizerSettings{})) {
  require(description.vocab_size > 0 || description.features() > 0, "a description with neither a vocabulary nor features");
  if (description.vocab_size > 0 && tokenizer_.vocab_size() != description.vocab_size)
    fail(ExitCode::checkpoint, "a tokenizer of {} tokens for a vocabulary of {}", tokenizer_.vocab_size(), description.vocab_size);
}

int64_t SampleEncoder::raw_features() const {
  return description_.missing == Missing::zero_with_flag ? description_.features() / 2 : description_.features();
}

void SampleEncoder::check_empty(bool empty, std::string_view where) const {
  if (empty && description_.empty == Empty::error)
    fail(ExitCode::data, "{}: an empty sample; remove it, or set data.empty: skip to leave such samples out", where);
}

void SampleEncoder::cut(std::string_view where, Sample& out) {
  const auto length = static_cast<int64_t>(out.tokens.size());
  std::string bytes;
  if (tokenizer_.settings().kind == TokenizerKind::byte && length > description_.max_length)
    bytes.assign(out.tokens.begin(), out.tokens.end());
  const Kept kept = kept_rows(length, description_.max_length, description_.truncate, where, bytes);
  if (kept.rows() == length) return;
  if (kept.rows() == 0 && description_.empty == Empty::error)
    fail(ExitCode::data,
         "{}: nothing is left of the text when it is cut to data.max_length: {}, within its first character; set data.empty: skip, or "
         "train with a larger data.max_length",
         where, description_.max_length);
  keep(out.tokens, kept, length, 1);
  if (!out.tags.empty()) keep(out.tags, kept, length, 1);
  ++truncated_;
}

void SampleEncoder::encode_text(std::string_view text, std::string_view where, Sample& out) {
  require(description_.vocab_size > 0, "a text for a model of numeric sequences");
  out.tokens.clear();
  unknown_ += tokenizer_.encode(text, out.tokens);
  seen_ += static_cast<int64_t>(out.tokens.size());
  check_empty(out.tokens.empty(), where);
  cut(where, out);
}

void SampleEncoder::encode_tokens(const std::vector<std::string>& tokens, std::string_view where, Sample& out) {
  require(description_.vocab_size > 0, "tokens for a model of numeric sequences");
  require(out.tags.empty() || out.tags.size() == tokens.size(), "{} tags for {} tokens", out.tags.size(), tokens.size());
  out.tokens.clear();
  for (const std::string& token : tokens) {
    out.tokens.push_back(tokenizer_.number(token));
    unknown_ += out.tokens.back() == 0;
  }
  seen_ += static_cast<int64_t>(tokens.size());
  check_empty(tokens.empty(), where);
  cut(where, out);
}

void SampleEncoder::encode_values(std::vector<double> values, int64_t length, std::string_view where, Sample& out) {
  require(description_.vocab_size == 0, "numbers for a model of token sequences");
  const int64_t raw = raw_features(), all = description_.features();
  require(static_cast<int64_t>(values.size()) == length * raw, "{} values for {} rows of {} features", values.size(), length, raw);
  check_empty(length == 0, where);
  const Kept kept = kept_rows(length, description_.max_length, description_.truncate, where);
  if (kept.rows() != length) ++truncated_;
  keep(values, kept, length, raw);
  if (!out.tags.empty()) keep(out.tags, kept, length, 1);
  const double* mean = description_.feature_mean.defined() ? description_.feature_mean.data<double>() : nullptr;
  const double* deviation = mean ? description_.feature_deviation.data<double>() : nullptr;
  out.values.assign(static_cast<size_t>(kept.rows() * all), 0);
  for (int64_t r = 0; r < kept.rows(); ++r)
    for (int64_t f = 0; f < raw; ++f) {
      const double x = values[static_cast<size_t>(r * raw + f)];
      float* row = &out.values[static_cast<size_t>(r * all)];
      if (is_usable(x)) {
        row[f] = static_cast<float>(mean ? (x - mean[f]) / deviation[f] : x);
        continue;
      }
      if (description_.missing == Missing::error)
        fail(ExitCode::data,
             "{}: step {}, feature '{}': {} is no finite number; correct it, or set data.missing: zero_with_flag before training", where,
             (r < kept.head ? r : length - kept.rows() + r) + 1, description_.feature_names[static_cast<size_t>(f)], x);
      ++missing_;
      row[raw + f] = 1;
    }
}

}  // namespace tapeformer::data
