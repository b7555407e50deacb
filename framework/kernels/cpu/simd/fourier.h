// SPDX-License-Identifier: Apache-2.0
// Fast Fourier transforms of many columns at once: a vector of columns beside its imaginary parts, one row a value.
#pragma once
#include "framework/kernels/cpu/simd/simd.h"

namespace tapeformer::simd {

// The fields of FourierPlan.
struct FourierTransform {
  int length = 0, smooth = 0;
  const int32_t* radices = nullptr;
  int radix_count = 0;
  const float* roots = nullptr;
  const float *chirp = nullptr, *chirp_factor = nullptr;  // null where `length` is smooth
};

int fourier_columns();  // of a vector
// Floats, aligned to 64 bytes.
size_t fourier_scratch(const FourierTransform& transform);
// Transforms `columns` <= fourier_columns() columns of `rows` <= length rows, followed by zeros. Returns, in the scratch, the result: for each
// frequency a vector of real parts and one of imaginary parts.
const float* fourier(const FourierTransform& transform, ConstRows real, ConstRows imaginary, int rows, int columns, float* scratch);

}  // namespace tapeformer::simd
