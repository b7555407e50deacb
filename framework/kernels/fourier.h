// SPDX-License-Identifier: Apache-2.0
// The real part of the two-dimensional Fourier transform of each sequence, over its positions and its channels (FNet: Lee-Thorp, Ainslie,
// Eckstein, Ontanon 2021, 2105.03824).
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "framework/core/device.h"
#include "framework/core/packing.h"
#include "framework/core/tensor.h"
#include "framework/kernels/write.h"

namespace tapeformer {

// What a fast transform of one length needs: the factors of the length and its roots of unity. A length with a prime factor above 7 is
// transformed as a convolution of a longer, smooth length (Bluestein 1970).
struct FourierPlan {
  int32_t length = 0;               // N
  int32_t smooth = 0;               // the length that is factored: N, or at least 2 N - 1
  std::vector<int32_t> radices;     // their product is `smooth`
  std::vector<float> roots;         // exp(-2 pi i k / smooth), [smooth] pairs of real and imaginary part
  std::vector<float> chirp;         // exp(-pi i k^2 / N), [N] pairs; empty where N is smooth
  std::vector<float> chirp_factor;  // the transform of the conjugate chirp, wrapped around, over `smooth`: [smooth] pairs
  size_t bytes() const { return sizeof(float) * (roots.size() + chirp.size() + chirp_factor.size()); }
};
using FourierPlanPointer = std::shared_ptr<const FourierPlan>;
FourierPlan fourier_plan(int32_t length);

// The transform over C real channels as a product x M. For l = 0 ... L - 1 with L = (C + 1) / 2: column l of M is the real part and column
// L + l the imaginary part of the frequency l; as that of frequency 0 is zero, column L holds frequency C / 2, which is real, where C is even.
// [C, 2 L]
std::vector<float> fourier_channels(int64_t channels);

namespace kernels {

struct FourierCall {
  const Packing* packing = nullptr;
  std::span<const FourierPlanPointer> plans;  // [B], none shorter than its sequence
  std::span<const float> channels;            // fourier_channels(C)
};

// For each sequence of n rows, with N the length of its plan and x_jd = 0 for j >= n:
//   y_kc (+)= sum over j, d of cos(2 pi (j k / N + d c / C)) x_jd, for k < n.
// The matrix of this map is symmetric: it is its own adjoint.
template <class T>
struct FourierMix {
  static void reference(const Execution&, const FourierCall&, View<const T> x, View<T> y, Write);
  static void cpu(const Execution&, const FourierCall&, View<const T> x, View<T> y, Write);
};

}  // namespace kernels
}  // namespace tapeformer
