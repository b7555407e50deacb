// SPDX-License-Identifier: Apache-2.0
// Text to token numbers. Kinds: byte (256 values, no unknown), character (code points), whitespace (split at spaces), word (letters, digits,
// punctuation marks apart). Number 0 is <unk> except for bytes. The vocabulary comes from the training part: most frequent first, then by text.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tapeformer::data {

enum class TokenizerKind : uint8_t { byte, character, whitespace, word };

struct TokenizerSettings {
  TokenizerKind kind = TokenizerKind::whitespace;
  bool lowercase = false;      // Unicode simple case folding to lower
  int64_t vocab_size = 0;      // most tokens kept, <unk> included; 0: all
  int64_t minimum_count = 1;   // rarer tokens become <unk>
};

class Tokenizer {
 public:
  explicit Tokenizer(TokenizerSettings settings) : settings_(settings) {}
  // Counts the tokens of one training text; finish_vocabulary() then fixes the numbers.
  void learn(std::string_view text);
  void finish_vocabulary();
  // Appends the numbers; returns how many were unknown.
  int64_t encode(std::string_view text, std::vector<int32_t>& out) const;
  // The text of one number ("<unk>" for unknown; bytes as themselves).
  std::string decode(int32_t token) const;
  std::string decode(const std::vector<int32_t>& tokens) const;
  // Where each token begins in the (lower-cased) text, to cut on a token border and for tagging.
  std::vector<std::string> split(std::string_view text) const;
  int64_t vocab_size() const;
  std::string to_json() const;
  static Tokenizer from_json(const std::string& json);  // Error(checkpoint) when it is not one of ours
  const TokenizerSettings& settings() const { return settings_; }

 private:
  TokenizerSettings settings_;
  std::map<std::string, int64_t, std::less<>> counts_;
  std::map<std::string, int32_t, std::less<>> numbers_;
  std::vector<std::string> tokens_;
};

}  // namespace tapeformer::data
