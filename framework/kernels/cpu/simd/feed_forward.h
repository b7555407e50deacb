// SPDX-License-Identifier: Apache-2.0
// Blocks of rows of the feed-forward half of a layer, forward and backward.
#pragma once
#include "framework/kernels/cpu/simd/panels.h"

namespace tapeformer::simd {

struct FeedForwardRows {
  int C = 0, F = 0;
  const float *gain = nullptr, *shift = nullptr;  // [C]; gain null: no norm
  float epsilon = 0;
  Nonlinearity activation = Nonlinearity::none;
  DropoutRows dropout_in, dropout_out;
  ConstRows x;                             // [M,C]
  Rows u;                                  // [M,F] what enters the activation; forward: null when nobody needs it
  float *mean = nullptr, *rstd = nullptr;  // [M]; written by the forward where there is a norm
  // Forward: the operands Up' [C x F] and Down' [F x C]. Backward: Up [F x C] and Down [C x F]; Up null: neither dx nor dgain and dshift.
  const float *up = nullptr, *down = nullptr;
  const float *up_bias = nullptr, *down_bias = nullptr;  // forward
  ConstRows residual;                                    // forward, [M,C]
  Rows y;                                                // forward, [M,C]; may be the residual
  ConstRows dy;                                          // backward, [M,C]
  Rows dx;                                               // backward, [M,C]
  bool add = false;                                      // to dx
  // Backward: when given, norm(x), dy behind the dropout, what the activation leaves, and the gradient of u are left there
  // ([M,C], [M,C], [M,F], [M,F]), and a part holds neither dUp nor dDown.
  Rows h, dz, a, du;
};

// The sums over the rows of one segment, in panel layout: dUp [F x C] and dDown [C x F] unless they are formed elsewhere, and the vectors.
struct FeedForwardPart {
  size_t dup = 0, ddown = 0, dup_bias = 0, ddown_bias = 0, dgain = 0, dshift = 0, size = 0;  // floats from the start of a part
  FeedForwardPart(int C, int F, int columns, bool weights);
};

size_t feed_forward_scratch(const FeedForwardRows& p, int rows);
void feed_forward_rows(const FeedForwardRows& p, ptrdiff_t first, int rows, float* scratch);
// `add` is false for the first block of a part, which is not initialised.
void feed_forward_backward_rows(const FeedForwardRows& p, ptrdiff_t first, int rows, float* part, bool add, float* scratch);

}  // namespace tapeformer::simd
