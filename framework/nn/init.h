// SPDX-License-Identifier: Apache-2.0
// How parameters come to be: named tensors filled from the run's seed, the same on every device and in every precision up to rounding.
#pragma once
#include <string>

#include "framework/autograd/tape.h"
#include "framework/core/random.h"

namespace tapeformer::nn {

// What layers need while they are built.
struct Builder {
  uint64_t seed = 0;
  Dtype dtype = Dtype::f32;

  Parameter constant(std::string name, Shape shape, double value) const;
  Parameter normal(std::string name, Shape shape, double deviation) const;
  // Glorot, Bengio 2010: uniform in +-gain sqrt(6 / (fan_in + fan_out)) for a weight [out, in].
  Parameter xavier_uniform(std::string name, int64_t out, int64_t in, double gain) const;
};

// Fills a matrix (a parameter or a slice of one) as if it were the parameter `name`.
void fill_xavier_uniform(uint64_t seed, const std::string& name, const Tensor& weight, double gain);
// Standard normal values, the draw's at (first_row + row, column).
void fill_gaussian(const Draw&, const Tensor& matrix, uint32_t first_row = 0);

}  // namespace tapeformer::nn
