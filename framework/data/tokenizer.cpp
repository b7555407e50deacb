// SPDX-License-Identifier: Apache-2.0
#include "framework/data/tokenizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "framework/core/error.h"

namespace tapeformer::data {
namespace {

constexpr std::string_view unknown = "<unk>";
constexpr std::array<std::string_view, 4> kind_names{"byte", "character", "whitespace", "word"};

enum class Class : uint8_t { space, letter, sign };

struct CodePoint {
  int32_t value;
  size_t bytes;
};

CodePoint code_point_at(std::string_view text, size_t at) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  if (bytes[at] < 0x80) return {bytes[at], 1};
  utf8proc_int32_t value = 0;
  const utf8proc_ssize_t n = utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(text.size() - at), &value);
  if (n <= 0)
    fail(ExitCode::data, "byte {} of a text (0x{:02x}) is not UTF-8; declare its encoding: latin-1, or use the byte tokenizer", at,
         bytes[at]);
  return {value, static_cast<size_t>(n)};
}

Class class_of(int32_t code_point) {
  if (code_point == ' ' || (code_point >= '\t' && code_point <= '\r')) return Class::space;
  switch (utf8proc_category(code_point)) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return Class::space;
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return Class::letter;
    default:
      return Class::sign;
  }
}

bool is_space(int32_t c) { return c < 0x80 ? c == ' ' || (c >= '\t' && c <= '\r') : class_of(c) == Class::space; }

std::string lowered(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    at += c.bytes;
    utf8proc_uint8_t bytes[4];
    const utf8proc_ssize_t n = utf8proc_encode_char(utf8proc_tolower(c.value), bytes);
    out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(n));
  }
  return out;
}

// Calls visit(token) for each token of the kind, in order.
template <class Visit>
void split_text(TokenizerKind kind, std::string_view text, const Visit& visit) {
  size_t begin = 0;  // of the word that is being read, which ends at `at`
  size_t at = 0;
  const auto end_word = [&] {
    if (at > begin) visit(text.substr(begin, at - begin));
  };
  while (at < text.size()) {
    const CodePoint c = kind == TokenizerKind::byte ? CodePoint{0, 1} : code_point_at(text, at);
    const size_t next = at + c.bytes;
    if (kind == TokenizerKind::byte || kind == TokenizerKind::character) {
      visit(text.substr(at, c.bytes));
      begin = next;
    } else if (is_space(c.value)) {
      end_word();
      begin = next;
    } else if (kind == TokenizerKind::word && class_of(c.value) == Class::sign) {
      end_word();
      visit(text.substr(at, c.bytes));
      begin = next;
    }
    at = next;
  }
  end_word();
}

// The same over the lower-cased text where asked.
template <class Visit>
void each_token(const TokenizerSettings& settings, std::string_view text, const Visit& visit) {
  if (settings.lowercase) split_text(settings.kind, lowered(text), visit);
  else split_text(settings.kind, text, visit);
}

}  // namespace

std::string_view name_of(TokenizerKind kind) { return kind_names[static_cast<size_t>(kind)]; }

void Tokenizer::count(std::string_view token) {
  const auto found = counts_.find(token);
  if (found != counts_.end()) ++found->second;
  else counts_.emplace(token, 1);
}

int32_t Tokenizer::lookup(std::string_view token) const {
  if (settings_.kind == TokenizerKind::byte) return static_cast<unsigned char>(token.front());
  const auto found = numbers_.find(token);
  return found == numbers_.end() ? 0 : found->second;
}

void Tokenizer::learn(std::string_view text) {
  if (settings_.kind == TokenizerKind::byte) return;
  each_token(settings_, text, [&](std::string_view token) { count(token); });
}

void Tokenizer::learn_token(std::string_view token) {
  require(settings_.kind != TokenizerKind::byte, "a token for the byte tokenizer");
  if (settings_.lowercase) count(lowered(token));
  else count(token);
}

int32_t Tokenizer::number(std::string_view token) const {
  require(settings_.kind != TokenizerKind::byte, "a token for the byte tokenizer");
  return settings_.lowercase ? lookup(lowered(token)) : lookup(token);
}

void Tokenizer::finish_vocabulary() {
  if (settings_.kind == TokenizerKind::byte) return;
  std::vector<std::pair<std::string, int64_t>> order;
  for (const auto& [token, n] : counts_)
    if (n >= settings_.minimum_count && token != unknown) order.emplace_back(token, n);
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.second != b.second ? a.second > b.second : a.first < b.first; });
  if (settings_.vocab_size > 0 && static_cast<int64_t>(order.size()) > settings_.vocab_size - 1)
    order.resize(static_cast<size_t>(std::max<int64_t>(settings_.vocab_size - 1, 0)));
  tokens_.assign(1, std::string(unknown));
  numbers_.clear();
  for (auto& [token, n] : order) {
    numbers_.emplace(token, static_cast<int32_t>(tokens_.size()));
    tokens_.push_back(std::move(token));
  }
  counts_.clear();
}

int64_t Tokenizer::encode(std::string_view text, std::vector<int32_t>& out) const {
  require(vocab_size() > 0, "a tokenizer without a vocabulary");
  int64_t unknowns = 0;
  const bool has_unknown = settings_.kind != TokenizerKind::byte;
  each_token(settings_, text, [&](std::string_view token) {
    out.push_back(lookup(token));
    unknowns += has_unknown && out.back() == 0;
  });
  return unknowns;
}

std::string Tokenizer::decode(int32_t token) const {
  require(token >= 0 && token < vocab_size(), "the token {} in a vocabulary of {}", token, vocab_size());
  if (settings_.kind == TokenizerKind::byte) return std::string(1, static_cast<char>(token));
  return tokens_[static_cast<size_t>(token)];
}

std::string Tokenizer::decode(const std::vector<int32_t>& tokens) const {
  const bool spaced = settings_.kind == TokenizerKind::whitespace || settings_.kind == TokenizerKind::word;
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (spaced && i > 0) text += ' ';
    text += decode(tokens[i]);
  }
  return text;
}

std::vector<std::string> Tokenizer::split(std::string_view text) const {
  std::vector<std::string> tokens;
  each_token(settings_, text, [&](std::string_view token) { tokens.emplace_back(token); });
  return tokens;
}

std::string Tokenizer::to_json() const {
  nlohmann::ordered_json j;
  j["type"] = name_of(settings_.kind);
  j["lowercase"] = settings_.lowercase;
  j["vocab_size"] = settings_.vocab_size;
  j["minimum_count"] = settings_.minimum_count;
  j["tokens"] = tokens_;
  return j.dump();
}

Tokenizer Tokenizer::from_json(const std::string& json) {
  try {
    const auto j = nlohmann::json::parse(json);
    const auto kind = std::find(kind_names.begin(), kind_names.end(), j.at("type").get<std::string>());
    if (kind == kind_names.end()) fail(ExitCode::checkpoint, "the tokenizer has the unknown type '{}'", j.at("type").get<std::string>());
    Tokenizer t({static_cast<TokenizerKind>(kind - kind_names.begin()), j.at("lowercase").get<bool>(), j.at("vocab_size").get<int64_t>(),
                 j.at("minimum_count").get<int64_t>()});
    t.tokens_ = j.at("tokens").get<std::vector<std::string>>();
    const bool bytes = t.settings_.kind == TokenizerKind::byte;
    if (bytes ? !t.tokens_.empty() : t.tokens_.empty() || t.tokens_[0] != unknown)
      fail(ExitCode::checkpoint, "the tokenizer's vocabulary does not begin with {}", unknown);
    for (size_t i = 1; i < t.tokens_.size(); ++i)
      if (!t.numbers_.emplace(t.tokens_[i], static_cast<int32_t>(i)).second)
        fail(ExitCode::checkpoint, "the tokenizer's vocabulary has token {} twice", i);
    return t;
  } catch (const nlohmann::json::exception& e) {
    fail(ExitCode::checkpoint, "the tokenizer cannot be read: {}", e.what());
  }
}

}  // namespace tapeformer::data
