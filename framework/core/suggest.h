// SPDX-License-Identifier: Apache-2.0
// The nearest of the known words to a misspelled one, for "did you mean".
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tapeformer {
// Empty when nothing is near (Damerau-Levenshtein distance at most a third of the length, at least 1), and for single
// characters, of which each is as near as any other.
std::string nearest(std::string_view word, const std::vector<std::string>& known);
}  // namespace tapeformer
