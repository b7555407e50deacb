// SPDX-License-Identifier: Apache-2.0
// Weighted sums of rows by a sparse map: gather, repeat, permute, means of segments, scatter.
#pragma once
#include <memory>
#include <span>

#include "framework/autograd/context.h"
#include "framework/kernels/sparse_rows.h"

namespace tapeformer::ops {

using RowMapPointer = std::shared_ptr<const RowMap>;  // held by the tape, so a map may be made for one step

// out[r, columns of head h] = sum over the entries e of row r of map h: weight_e x[source_e, columns of head h].
// x [R, heads * D]; maps: one for all heads, or one a head, all with R rows of x and equally many of the result. Returns [R', heads * D].
// The gradient of a row of x adds the rows of the result that read it in ascending order.
Variable sparse_rows(Context&, const Variable& x, std::span<const RowMapPointer> maps, int heads);
// The same map for all columns.
Variable sparse_rows(Context&, const Variable& x, RowMapPointer map);

}  // namespace tapeformer::ops
