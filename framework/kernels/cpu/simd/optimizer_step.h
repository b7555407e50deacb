// SPDX-License-Identifier: Apache-2.0
// One pass of an optimiser over a range of elements.
#pragma once
#include "framework/kernels/cpu/simd/simd.h"

namespace tapeformer::simd {

// m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; p = keep p - step m / (sqrt(v) root + epsilon), with g = clip(scale gradient) + decay p.
struct AdamPass {
  float scale, clip, decay, beta1, one_minus_beta1, beta2, one_minus_beta2, keep, step, root, epsilon;  // clip 0: none
};
void adam_pass(const AdamPass& s, ptrdiff_t n, const float* gradient, float* parameter, float* exp_avg, float* exp_avg_sq);

// b = momentum b + g; p -= rate b, with g as above; momentum null: p -= rate g.
struct SgdPass {
  float scale, clip, decay, momentum, rate;
};
void sgd_pass(const SgdPass& s, ptrdiff_t n, const float* gradient, float* parameter, float* momentum);

// average = decay average + rest value.
void average_pass(float decay, float rest, ptrdiff_t n, const float* value, float* average);

}  // namespace tapeformer::simd
