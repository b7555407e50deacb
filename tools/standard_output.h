// SPDX-License-Identifier: Apache-2.0
// Results on standard output, unbuffered and checked: a reader that went away ends a verb quietly, a full disk is an error.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/error.h"

namespace tapeformer::tools {

// False when nobody reads any more, so that nothing more need be made. Error(resource) when it cannot be written.
[[nodiscard]] bool write_out(std::string_view text);
// The last act of a verb whose result is this text.
ExitCode print_result(std::string_view text);

// Rows of cells as lines: the first column to the left, the others to the right, two spaces between.
std::string aligned(const std::vector<std::vector<std::string>>& rows);
// The same with a text after each line, empty ones left out.
std::string aligned(const std::vector<std::vector<std::string>>& rows, const std::vector<std::string>& notes);
// "12.3 KiB"
std::string bytes_text(double bytes);

}  // namespace tapeformer::tools
