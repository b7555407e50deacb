// SPDX-License-Identifier: Apache-2.0
// Products of blocks of two matrices: scores of single heads, mixing along positions, chains of small matrices.
#pragma once
#include <vector>

#include "framework/autograd/context.h"
#include "framework/kernels/batched_product.h"

namespace tapeformer::ops {

// A variable or a parameter, seen as a matrix (a tensor of more axes as [first axis, all others]).
class ProductOperand {
 public:
  ProductOperand(const Variable& x) : value(x.value), node(x.node) {}
  ProductOperand(Parameter& p) : value(p.value), parameter(&p) {}

  Tensor value;
  int node = no_node;
  Parameter* parameter = nullptr;
};

struct ProductSettings {
  bool transpose_a = false, transpose_b = false;
  double alpha = 1;
};

// For each group g: c_g = alpha op(a_g) op(b_g), where op transposes if the settings say so. Blocks of the result [rows, columns] must not
// overlap and are 0 where no group writes. Blocks of a and b may be shared or overlap: their gradients are added in the order of the
// groups.
Variable batched_product(Context&, const ProductOperand& a, const ProductOperand& b, Shape of_c, std::vector<ProductGroup> groups,
                         const ProductSettings& = {});

}  // namespace tapeformer::ops
