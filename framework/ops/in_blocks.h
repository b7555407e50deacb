// SPDX-License-Identifier: Apache-2.0
// Loops of ops that have no kernel of their own, in fixed blocks that threads share.
#pragma once
#include "framework/core/device.h"
#include "framework/core/parallel.h"

namespace tapeformer::ops {

// Calls body(first, last) for blocks of `block` indices that cover [0, count), or once for all where there are no threads: what body makes
// of an index may not depend on the others.
template <class Body>
void in_blocks(const Execution& on, int64_t count, int64_t block, const Body& body) {
  if (on.threads) parallel_blocks(*on.threads, count, block, body);
  else body(0, count);
}

}  // namespace tapeformer::ops
