// SPDX-License-Identifier: Apache-2.0
// A constant matrix of ones: adding a bias to all rows of a block is then a product.
#pragma once
#include <vector>

#include "framework/autograd/context.h"

namespace tapeformer::models {

inline Variable ones(const Context& context, int64_t rows, int64_t columns) {
  const std::vector<double> values(static_cast<size_t>(rows * columns), 1.0);
  const Tensor t = Tensor::of<double>(std::span(values), {rows, columns});
  return {context.dtype == Dtype::f64 ? t : t.converted(context.dtype), no_node};
}

}  // namespace tapeformer::models
