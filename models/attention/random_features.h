// SPDX-License-Identifier: Apache-2.0
// Random matrices of the kernel methods: rows that are standard normal vectors, independent or orthogonal in blocks.
#pragma once
#include "framework/core/random.h"
#include "framework/core/tensor.h"

namespace tapeformer::models {

struct FeatureDraws {
  Draw rows;                  // the Gaussian numbers, at (row, column)
  Draw lengths;               // of orthogonal rows: row i gets the length of its Gaussian vector i
  uint32_t lengths_from = 0;  // the first row of `lengths`
};
// Fills omega [M,D] (float32 or float64). Orthogonal: each block of D rows is a rotation drawn uniformly (Haar), from the Gaussian matrix
// in the rows bD ... bD + D - 1 of the draw, times lengths with the distribution of a Gaussian vector's; the last block is cut off
// (Choromanski et al. 2020, 2009.14794, section 4). The sign of the triangular factor's diagonal is positive (Mezzadri 2006,
// math-ph/0609050): without that rows of the rotation have a mean.
void fill_random_features(const FeatureDraws&, bool orthogonal, const Tensor& omega);

}  // namespace tapeformer::models
