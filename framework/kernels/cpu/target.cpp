// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/cpu/target.h"

#include <hwy/targets.h>

namespace tapeformer::kernels::cpu {

std::string_view target_name() {
  const int64_t supported = hwy::SupportedTargets();
  if (supported & HWY_AVX3) return "AVX-512";
  if (supported & HWY_AVX2) return "AVX2";
  return "baseline";
}

}  // namespace tapeformer::kernels::cpu
