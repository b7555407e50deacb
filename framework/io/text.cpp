// SPDX-License-Identifier: Apache-2.0
#include "framework/io/text.h"

#include <cstdint>
#include <cstring>

#include "framework/core/utf8.h"

namespace tapeformer::io {
namespace {

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

}  // namespace

std::optional<size_t> first_invalid_utf8(std::string_view bytes) {
  for (size_t at = ascii_run(bytes, 0); at < bytes.size();) {
    const size_t length = utf8_length(bytes, at);
    if (length == 0) return at;
    at += length;
    if (at < bytes.size() && static_cast<unsigned char>(bytes[at]) < 0x80) at += ascii_run(bytes, at);
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
    if (!continues_utf8(text[i])) starts.push_back(i);
  return starts;
}

}  // namespace tapeformer::io
