// SPDX-License-Identifier: Apache-2.0
// The feed-forward half of an encoder layer in one pass over row blocks that stay in cache:
//   y = residual + dropout_out( dropout_in( f( norm(x) Up' + up_bias ) ) Down' + down_bias ),   norm = LayerNorm, or nothing where gain is
//   null.
#pragma once
#include "framework/kernels/activation.h"
#include "framework/kernels/dropout.h"
#include "framework/kernels/write.h"

namespace tapeformer::kernels {

template <class T>
struct FeedForwardWeights {
  const T *gain = nullptr, *shift = nullptr;  // [C], both null: no norm
  T epsilon = 0;
  View<const T> up;              // [F,C]
  const T* up_bias = nullptr;    // [F] or null
  View<const T> down;            // [C,F]
  const T* down_bias = nullptr;  // [C] or null
  Activation activation = Activation::gelu;
  DropoutDraw dropout_in, dropout_out;
};

// What the backward needs: u[M,F] = what enters f; mean[M], rstd[M] (unused without norm). In inference u may have no data.
template <class T>
struct FeedForwardSaved {
  View<T> u;
  T *mean = nullptr, *rstd = nullptr;
};

// x, residual, y [M,C]; y is overwritten and may be the residual's memory.
template <class T>
struct FeedForwardForward {
  static void reference(const Execution&, const FeedForwardWeights<T>&, View<const T> x, View<const T> residual, View<T> y,
                        FeedForwardSaved<T>);
  static void cpu(const Execution&, const FeedForwardWeights<T>&, View<const T> x, View<const T> residual, View<T> y, FeedForwardSaved<T>);
};

// All added to; null or empty: nobody asked.
template <class T>
struct FeedForwardGradients {
  T *dgain = nullptr, *dshift = nullptr;
  View<T> dup;
  T* dup_bias = nullptr;
  View<T> ddown;
  T* ddown_bias = nullptr;
};

// dx (+)= the gradient through norm and both products; the gradient of the residual is dy itself and is the caller's.
template <class T>
struct FeedForwardBackward {
  static void reference(const Execution&, const FeedForwardWeights<T>&, View<const T> dy, View<const T> x, FeedForwardSaved<T>, View<T> dx,
                        Write, FeedForwardGradients<T>);
  static void cpu(const Execution&, const FeedForwardWeights<T>&, View<const T> dy, View<const T> x, FeedForwardSaved<T>, View<T> dx, Write,
                  FeedForwardGradients<T>);
};

}  // namespace tapeformer::kernels
