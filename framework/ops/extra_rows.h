// SPDX-License-Identifier: Apache-2.0
// Learned rows in front of every sequence, and parameters as variables.
#pragma once
#include "framework/autograd/context.h"

namespace tapeformer::ops {

// A parameter's value as a variable, for ops that take variables; its gradient is added to the parameter's.
Variable parameter(Context&, Parameter&);

// `extra` [g,C] before the rows of each sequence of x [T,C]: [T + gB, C], packed as packing.longer_by(g).
Variable put_in_front(Context&, const Variable& extra, const Variable& x, const Packing& packing);
// The rows of each sequence of x but the first g; `packing` is that of the result.
Variable take_off_front(Context&, const Variable& x, const Packing& packing, int32_t g);

}  // namespace tapeformer::ops
