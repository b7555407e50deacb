// SPDX-License-Identifier: Apache-2.0
// Cross-entropy of logits against class numbers, with label smoothing, class weights, row weights and ignored targets.
#pragma once
#include "framework/core/device.h"
#include "framework/core/tensor.h"

namespace tapeformer::kernels {

constexpr int32_t ignored_target = -100;  // PyTorch's number

// For each row r with target t: weight w = class_weights[t] row_weights[r] (null: 1), and
// loss w [ (1 - s) (-log p_t) + s avg_k(-log p_k) ] (PyTorch's smoothing s, whose smoothed part is also weighted by w here).
// Writes loss[M] (0 where ignored), weight[M] (0 where ignored) and dlogits[M,K] = gradient of the SUM of losses (0 where ignored).
template <class T>
struct CrossEntropy {
  static void reference(const Execution&, View<const T> logits, const int32_t* targets, const T* class_weights, const T* row_weights,
                        double smoothing, T* loss, T* weight, View<T> dlogits);
  static void cpu(const Execution&, View<const T> logits, const int32_t* targets, const T* class_weights, const T* row_weights,
                  double smoothing, T* loss, T* weight, View<T> dlogits);
};

}  // namespace tapeformer::kernels
