// SPDX-License-Identifier: Apache-2.0
// Loops that do nothing but what they are to measure.
#pragma once
#include "framework/kernels/cpu/simd/simd.h"

namespace tapeformer::simd {

// Independent chains of multiply-adds on registers, the end of the chains added up; `rounds` steps of each chain.
float multiply_add_loop(ptrdiff_t rounds);
// FLOPs of one round.
ptrdiff_t multiply_add_flops();
// y += a x.
void scaled_add(float a, ptrdiff_t n, const float* x, float* y);

}  // namespace tapeformer::simd
