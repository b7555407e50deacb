// SPDX-License-Identifier: Apache-2.0
// Pseudo-inverses of square matrices by products alone (Xiong et al. 2021, 2102.03902, section 3.2, after Razavi et al. 2014):
// Z_0 = A' / (|A|_1 |A|_inf), Z_{t+1} = Z_t (13 I - P (15 I - P (7 I - P))) / 4 with P = A Z_t.
#pragma once
#include "framework/core/device.h"
#include "framework/core/tensor.h"
#include "framework/kernels/write.h"

namespace tapeformer::kernels {

// Matrices lie below each other: a, z, da and dz are [G * m, m]. The norms are of each matrix, so none depends on the others.
struct PseudoInverseCall {
  int64_t matrices = 0;  // G
  int64_t size = 0;      // m
  int iterations = 0;

  // Rows of what the backward needs: for each matrix and iteration Z, P, U = 15 I - P (7 I - P) and R = 13 I - P U.
  int64_t kept_rows() const { return matrices * iterations * 4 * size; }
};

// `kept` is [kept_rows(), m], or empty when no backward follows.
template <class T>
struct PseudoInverseForward {
  static void reference(const Execution&, const PseudoInverseCall&, View<const T> a, View<T> z, View<T> kept);
  static void cpu(const Execution&, const PseudoInverseCall&, View<const T> a, View<T> z, View<T> kept);
};

// The gradient of the iteration as it is, not of its limit; that of the two norms is part of it.
template <class T>
struct PseudoInverseBackward {
  static void reference(const Execution&, const PseudoInverseCall&, View<const T> a, View<const T> kept, View<const T> dz, View<T> da,
                        Write);
  static void cpu(const Execution&, const PseudoInverseCall&, View<const T> a, View<const T> kept, View<const T> dz, View<T> da, Write);
};

}  // namespace tapeformer::kernels
