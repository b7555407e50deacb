// SPDX-License-Identifier: Apache-2.0
// Text to token numbers. Kinds: byte (256 values, no unknown), character (code points), whitespace (split at spaces), word (runs of
// letters, marks and digits; every other sign that is no space stands alone). Number 0 is <unk> except for bytes. The vocabulary comes from
// the training part: most frequent first, then by text.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tapeformer::data {

enum class TokenizerKind : uint8_t { byte, character, whitespace, word };
std::string_view name_of(TokenizerKind kind);

struct TokenizerSettings {
  TokenizerKind kind = TokenizerKind::whitespace;
  bool lowercase = false;     // each code point's simple lower-case mapping
  int64_t vocab_size = 0;     // most tokens kept, <unk> included; 0: all
  int64_t minimum_count = 1;  // rarer tokens become <unk>
};

class Tokenizer {
 public:
  explicit Tokenizer(TokenizerSettings settings) : settings_(settings) {}
  // Counts the tokens of one training text; finish_vocabulary() then fixes the numbers. Texts are UTF-8 (except for bytes); Error(data)
  // else.
  void learn(std::string_view text);
  void finish_vocabulary();
  // Appends the numbers; returns how many were unknown.
  int64_t encode(std::string_view text, std::vector<int32_t>& out) const;
  // One token that is split already, lower-cased like all others: counted, or its number (0 when unknown).
  void learn_token(std::string_view token);
  int32_t number(std::string_view token) const;
  // The text of one number ("<unk>" for unknown; bytes as themselves).
  std::string decode(int32_t token) const;
  std::string decode(const std::vector<int32_t>& tokens) const;
  // The (lower-cased) tokens of a text.
  std::vector<std::string> split(std::string_view text) const;
  int64_t vocab_size() const { return settings_.kind == TokenizerKind::byte ? 256 : static_cast<int64_t>(tokens_.size()); }
  std::string to_json() const;
  static Tokenizer from_json(const std::string& json);  // Error(checkpoint) when it is not one of ours
  const TokenizerSettings& settings() const { return settings_; }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  template <class Number>
  using Table = std::unordered_map<std::string, Number, Hash, std::equal_to<>>;

  void count(std::string_view token);
  int32_t lookup(std::string_view token) const;

  TokenizerSettings settings_;
  Table<int64_t> counts_;
  Table<int32_t> numbers_;
  std::vector<std::string> tokens_;
};

}  // namespace tapeformer::data
