// SPDX-License-Identifier: Apache-2.0
// Overrides of a config that is in a run: which words of a command line they are, and which keys change anything there.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tapeformer::tools {

// The overrides and the one file among words in any order; an existing file is one whatever its name.
struct Words {
  std::vector<std::string> overrides;
  std::string file;  // empty where none is given
};
Words sorted_words(const std::vector<std::string>& words);

// Of a model that is there: what becomes of new samples, and where it is computed.
inline constexpr std::string_view sample_keys[] = {"data.truncate", "data.empty", "device."};

// Error(usage) for an override of a key that is none of `allowed`, nor below one that ends with a dot: it would change nothing.
void check_overrides(const std::vector<std::string>& overrides, std::string_view verb, std::span<const std::string_view> allowed);

}  // namespace tapeformer::tools
