// SPDX-License-Identifier: Apache-2.0
// Runs a test once for each instruction set that this build and machine have, as if the better ones were missing.
#pragma once
#include <functional>
#include <string>

namespace tapeformer::test {

// Calls body(name) for each set, the best first; the choice is as before when it returns or throws.
void for_each_instruction_set(const std::function<void(const std::string&)>& body);

}  // namespace tapeformer::test
