// SPDX-License-Identifier: Apache-2.0
// What this machine gives at most, measured: the yardstick for a profile.
#pragma once
#include "framework/core/parallel.h"

namespace tapeformer::kernels {

struct Peak {
  double flops_per_s = 0;  // float multiply-adds (each counts 2) on registers, all threads of the pool at once
  double bytes_per_s = 0;  // y += a x over arrays that no cache holds: x and y read, y written
};

// The best of a few short loops on the vectors the kernels use; takes about half a second and 256 MiB, which are given back.
Peak measure_peak(ThreadPool& threads);

}  // namespace tapeformer::kernels
