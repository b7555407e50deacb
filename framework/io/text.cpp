// SPDX-License-Identifier: Apache-2.0
#include "framework/io/text.h"

#include <cstdint>
#include <cstring>

namespace tapeformer::io {
namespace {

constexpr bool continues(unsigned char c) { return (c & 0xc0) == 0x80; }

// Bytes at `at` before the first one above 0x7f, eight at a time.
size_t ascii_run(std::string_view bytes, size_t at) {
  const size_t first = at;
  for (uint64_t eight; at + sizeof(eight) <= bytes.size(); at += sizeof(eight)) {
    std::memcpy(&eight, bytes.data() + at, sizeof(eight));
    if (eight & 0x8080808080808080u) break;
  }
  while (at < bytes.size() && static_cast<unsigned char>(bytes[at]) < 0x80) ++at;
  return at - first;
}

// Length of the well-formed sequence that opens `s` (not ASCII), or 0: the byte ranges of the Unicode Standard, table 3-7.
size_t sequence_length(const unsigned char* s, size_t left) {
  const unsigned char lead = s[0];
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (left < length) return 0;
  const unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (s[1] < low || s[1] > high) return 0;
  for (size_t i = 2; i < length; ++i)
    if (!continues(s[i])) return 0;
  return length;
}

}  // namespace

std::optional<size_t> first_invalid_utf8(std::string_view bytes) {
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  for (size_t at = ascii_run(bytes, 0); at < bytes.size();) {
    const size_t length = sequence_length(data + at, bytes.size() - at);
    if (length == 0) return at;
    at += length;
    if (at < bytes.size() && data[at] < 0x80) at += ascii_run(bytes, at);
  }
  return std::nullopt;
}

std::string utf8_from_latin1(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() + bytes.size() / 8);
  for (const char c : bytes) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x80) text.push_back(c);
    else {
      text.push_back(static_cast<char>(0xc0 | code >> 6));
      text.push_back(static_cast<char>(0x80 | (code & 0x3f)));
    }
  }
  return text;
}

std::vector<size_t> character_starts(std::string_view text) {
  std::vector<size_t> starts;
  starts.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i)
    if (!continues(static_cast<unsigned char>(text[i]))) starts.push_back(i);
  return starts;
}

}  // namespace tapeformer::io
