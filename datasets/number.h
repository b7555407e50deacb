// SPDX-License-Identifier: Apache-2.0
// Numbers as text in data files: one reading for CSV, TSV and JSONL.
#pragma once
#include <optional>
#include <string_view>

namespace tapeformer::datasets {

// Without blanks, tabs and line ends at both ends.
std::string_view trimmed(std::string_view text);
// A decimal number, with or without exponent, blanks around it allowed; inf and nan count as numbers, and what is above the range of double
// is infinite. Nothing when the text is something else (a decimal comma, a unit, a hexadecimal number).
std::optional<double> number_of(std::string_view text);
// True for an empty cell and for NA, N/A, null, none and nan in any case.
bool is_missing(std::string_view text);

}  // namespace tapeformer::datasets
