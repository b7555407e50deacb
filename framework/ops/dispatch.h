// SPDX-License-Identifier: Apache-2.0
// From a tensor's dtype to the element type of kernels.
#pragma once
#include <utility>

#include "framework/core/dtype.h"
#include "framework/core/error.h"
#include "framework/kernels/launch.h"

namespace tapeformer::ops {

// Calls body(float{}) or body(double{}).
template <class Body>
decltype(auto) dispatch(Dtype dtype, Body&& body) {
  if (dtype == Dtype::f32) return body(float{});
  require(dtype == Dtype::f64, "no kernel computes in {}", name_of(dtype));
  return body(double{});
}

}  // namespace tapeformer::ops
