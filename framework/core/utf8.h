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

}  // namespace tapeformer
