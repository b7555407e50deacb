// SPDX-License-Identifier: Apache-2.0
// The checks that all ops share.
#include "framework/ops/check.h"

namespace tapeformer::ops {

void check_matrix(const Context& ctx, std::string_view op, std::string_view argument, const Tensor& x) {
  require(x.defined(), "{}: {} is not defined", op, argument);
  require(x.shape().rank() == 2, "{}: {} has the shape {}, expected a matrix", op, argument, x.shape().text());
  require(x.dtype() == ctx.dtype, "{}: {} is {}, the context computes in {}", op, argument, name_of(x.dtype()), name_of(ctx.dtype));
  require(ctx.on.device != Device::cpu || ctx.on.threads, "{}: the cpu device needs a thread pool", op);
}

void check_tensor(std::string_view op, std::string_view argument, const Tensor& x, Dtype dtype, const Shape& shape) {
  require(x.defined(), "{}: {} is not defined", op, argument);
  require(x.dtype() == dtype && x.shape() == shape, "{}: {} is {} {}, expected {} {}", op, argument, name_of(x.dtype()), x.shape().text(),
          name_of(dtype), shape.text());
  require(shape.rank() != 1 || x.contiguous(), "{}: {} is strided, expected a contiguous vector", op, argument);
}

void check_parameter(const Context& ctx, std::string_view op, const Parameter& parameter, const Shape& shape) {
  check_tensor(op, parameter.name, parameter.value, ctx.dtype, shape);
  require(parameter.value.contiguous(), "{}: the value of {} is strided", op, parameter.name);
  if (!parameter.gradient.defined()) return;
  check_tensor(op, parameter.name + "'s gradient", parameter.gradient, ctx.dtype, shape);
  require(parameter.gradient.contiguous(), "{}: the gradient of {} is strided", op, parameter.name);
}

void check_rows(std::string_view op, const Tensor& x, const Packing& packing) {
  require(x.shape()[0] == packing.rows(), "{}: {} rows, but the packing has {}", op, x.shape()[0], packing.rows());
}

}  // namespace tapeformer::ops
