// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), for fingerprints that a person can check with other programs.
#pragma once
#include <string>
#include <string_view>

namespace tapeformer::io {

// 64 lower-case hexadecimal digits.
std::string sha256(std::string_view bytes);

}  // namespace tapeformer::io
