// SPDX-License-Identifier: Apache-2.0
// The instruction set that the vectorised kernels use on this machine.
#pragma once
#include <string_view>

namespace tapeformer::kernels::cpu {
std::string_view target_name();  // "AVX-512", "AVX2" or "baseline"
}
