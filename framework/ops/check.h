// SPDX-License-Identifier: Apache-2.0
// What every op checks of its arguments before a kernel sees them. Misuse is Error(internal) that names the op and the argument.
#pragma once
#include <string_view>

#include "framework/autograd/context.h"

namespace tapeformer::ops {

// x is a matrix in the context's dtype, and the context's device can run.
void check_matrix(const Context&, std::string_view op, std::string_view argument, const Tensor& x);
// x has exactly this dtype and shape; a vector is contiguous.
void check_tensor(std::string_view op, std::string_view argument, const Tensor& x, Dtype dtype, const Shape& shape);
// A parameter's value is contiguous, in the context's dtype and of this shape; its gradient, when there is one, equals it in both.
void check_parameter(const Context&, std::string_view op, const Parameter& parameter, const Shape& shape);
// x has a row for each row of the packing.
void check_rows(std::string_view op, const Tensor& x, const Packing& packing);

}  // namespace tapeformer::ops
