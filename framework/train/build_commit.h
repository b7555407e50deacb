// SPDX-License-Identifier: Apache-2.0
// Which source the program was built from.
#pragma once
#include <string>

namespace tapeformer::train {
// The commit that was checked out when the build was configured, 40 hexadecimal digits; "unknown" for a source without git's history.
std::string build_commit();
}  // namespace tapeformer::train
