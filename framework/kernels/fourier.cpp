// SPDX-License-Identifier: Apache-2.0
// Factors and roots of unity for transforms of any length, made in double.
#include "framework/kernels/fourier.h"

#include <cmath>
#include <complex>
#include <numbers>

#include "framework/core/error.h"

namespace tapeformer {
namespace {

using Complex = std::complex<double>;

// exp(-2 pi i k / n)
Complex root(int64_t k, int64_t n) { return std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k % n) / static_cast<double>(n)); }

// Empty where a prime factor is above 7.
std::vector<int32_t> factors(int32_t n) {
  std::vector<int32_t> out;
  for (const int32_t r : {4, 2, 3, 5, 7})
    for (; n % r == 0 && n > 1; n /= r) out.push_back(r);
  if (n > 1) out.clear();
  return out;
}

// The smallest 2^a, 3 2^a or 5 2^a that is at least n.
int32_t smooth_above(int64_t n) {
  int64_t best = 0;
  for (int64_t odd : {1, 3, 5}) {
    while (odd < n) odd *= 2;
    if (best == 0 || odd < best) best = odd;
  }
  require(best <= INT32_MAX, "a Fourier transform of {} values", n);
  return static_cast<int32_t>(best);
}

// The transform of x by the definition, split by one factor after another.
std::vector<Complex> transform(const std::vector<Complex>& x, std::span<const int32_t> radices) {
  const auto n = static_cast<int64_t>(x.size());
  if (n == 1) return x;
  const int64_t r = radices.front(), m = n / r;
  std::vector<std::vector<Complex>> parts;
  for (int64_t j = 0; j < r; ++j) {
    std::vector<Complex> part;
    for (int64_t i = 0; i < m; ++i) part.push_back(x[static_cast<size_t>(i * r + j)]);
    parts.push_back(transform(part, radices.subspan(1)));
  }
  std::vector<Complex> out(x.size());
  for (int64_t k = 0; k < n; ++k)
    for (int64_t j = 0; j < r; ++j) out[static_cast<size_t>(k)] += root(j * k, n) * parts[static_cast<size_t>(j)][static_cast<size_t>(k % m)];
  return out;
}

void append(std::vector<float>& pairs, const Complex& z) {
  pairs.push_back(static_cast<float>(z.real()));
  pairs.push_back(static_cast<float>(z.imag()));
}

void add_chirp(FourierPlan& plan) {
  const int64_t n = plan.length, m = plan.smooth;
  std::vector<Complex> wrapped(static_cast<size_t>(m));
  for (int64_t k = 0; k < n; ++k) {
    const Complex chirp = root(k * k, 2 * n);
    append(plan.chirp, chirp);
    wrapped[static_cast<size_t>(k)] = wrapped[static_cast<size_t>((m - k) % m)] = std::conj(chirp);
  }
  for (const Complex& z : transform(wrapped, plan.radices)) append(plan.chirp_factor, z / static_cast<double>(m));
}

}  // namespace

FourierPlan fourier_plan(int32_t length) {
  require(length >= 0, "a Fourier transform of {} values", length);
  FourierPlan plan{.length = length, .smooth = length};
  plan.radices = factors(length);
  const bool smooth = length <= 1 || !plan.radices.empty();
  if (!smooth) {
    plan.smooth = smooth_above(2 * int64_t{length} - 1);
    plan.radices = factors(plan.smooth);
  }
  for (int64_t k = 0; k < plan.smooth; ++k) append(plan.roots, root(k, plan.smooth));
  if (!smooth) add_chirp(plan);
  return plan;
}

std::vector<float> fourier_channels(int64_t channels) {
  const int64_t half = (channels + 1) / 2;
  std::vector<float> matrix(static_cast<size_t>(channels * 2 * half));
  for (int64_t d = 0; d < channels; ++d) {
    float* const row = matrix.data() + d * 2 * half;
    for (int64_t l = 0; l < half; ++l) {
      const Complex z = root(d * l, channels);
      row[l] = static_cast<float>(z.real());
      row[half + l] = static_cast<float>(z.imag());
    }
    if (channels % 2 == 0) row[half] = d % 2 ? -1.f : 1.f;
  }
  return matrix;
}

}  // namespace tapeformer
