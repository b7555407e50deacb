// SPDX-License-Identifier: Apache-2.0
// The versions of the program, its file formats and the libraries it runs with.
#pragma once
#include <string>

namespace tapeformer::tools {
std::string version_text();
}
