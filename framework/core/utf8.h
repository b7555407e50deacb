// SPDX-License-Identifier: Apache-2.0
// Which bytes are UTF-8 characters.
#pragma once
#include <cstddef>
#include <string_view>

namespace tapeformer {

// Length of the well-formed sequence that begins at `at` (below the size), or 0: the byte ranges of the Unicode Standard, table 3-7, which
// leave out overlong forms and surrogates.
size_t utf8_length(std::string_view bytes, size_t at);

// Whether a byte stands inside of a sequence, after its first.
constexpr bool continues_utf8(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// Whether U+0080 to U+009F, the second set of control characters, begins at `at`.
constexpr bool is_c1_control(std::string_view text, size_t at) {
  return text[at] == '\xC2' && at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) < 0xA0;
}

}  // namespace tapeformer
