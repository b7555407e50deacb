// SPDX-License-Identifier: Apache-2.0
// Products of blocks of rows by oneDNN, on the calling thread alone. A block has one fixed number of rows, so a row's bytes depend neither
// on its place nor on the rows beside it.
#pragma once
#include <memory>
#include <span>

#include "framework/core/tensor.h"
#include "framework/kernels/write.h"

namespace tapeformer::kernels::cpu {

struct OnednnShape {
  int64_t K, N, rows;
};
// The shapes that oneDNN computes, and the rows of their blocks.
std::span<const OnednnShape> onednn_shapes();
// Rows of a block where oneDNN was measured to be the faster one for x[M,K] times a right operand [K x N]; 0: our own register blocks.
int64_t onednn_rows(int64_t K, int64_t N);

// A right operand and blocks of `rows` rows (a multiple of 48) to multiply with it. Several threads may use it at a time.
class OnednnProduct {
 public:
  // w[K,N], or w[N,K] when transposed; a copy in oneDNN's own layout is made here.
  OnednnProduct(View<const float> w, bool transposed, const float* bias, int64_t rows);
  ~OnednnProduct();
  OnednnProduct(const OnednnProduct&) = delete;
  OnednnProduct& operator=(const OnednnProduct&) = delete;

  // Floats of scratch of one thread.
  size_t scratch() const;
  // y (+)= x w + bias for at most `rows` rows; missing ones are filled with zeros in the scratch.
  void multiply(View<const float> x, View<float> y, Write write, float* scratch) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tapeformer::kernels::cpu
