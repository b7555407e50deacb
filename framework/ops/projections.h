// SPDX-License-Identifier: Apache-2.0
// q, k and v of an attention op: three arrays, or three column views of one, and the same for their gradients.
#pragma once
#include <string_view>

#include "framework/autograd/context.h"

namespace tapeformer::ops {

struct Projections {
  Tensor q, k, v;  // [T, H*D]; k and v may have rows of their own
};

// The nodes that get the gradients: of q, k and v, or of the one array qkv.
struct ProjectionNodes {
  int q = no_node, k = no_node, v = no_node, qkv = no_node;
  bool any() const { return q != no_node || k != no_node || v != no_node || qkv != no_node; }
};

// Column views of qkv [T, 3*H*D].
Projections split(const Context&, std::string_view op, const Tensor& qkv);
// Equal columns that the heads divide, and a row for each row of the packing: q of `queries`, k and v of `keys`.
void check_projections(const Context&, std::string_view op, const Projections&, const Packing& queries, const Packing& keys, int heads);

// Arrays that a kernel overwrites with dq, dk, dv, laid out as x is.
struct ProjectionGradients {
  ProjectionGradients(const Projections& x, const ProjectionNodes& nodes);
  void hand_over(Tape& tape, const ProjectionNodes& nodes) const;

  Tensor whole;  // [T, 3*H*D], or undefined
  Projections parts;
};

}  // namespace tapeformer::ops
