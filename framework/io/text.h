// SPDX-License-Identifier: Apache-2.0
// Bytes to UTF-8 text: validation with the exact place of a fault, Latin-1 conversion, the places where characters begin.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tapeformer::io {

// Offset of the first byte that does not belong to valid UTF-8 (overlong forms and surrogates are invalid), or nothing.
std::optional<size_t> first_invalid_utf8(std::string_view bytes);
std::string utf8_from_latin1(std::string_view bytes);
// The start offsets of the code points of valid UTF-8.
std::vector<size_t> character_starts(std::string_view text);

}  // namespace tapeformer::io
