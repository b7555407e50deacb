// SPDX-License-Identifier: Apache-2.0
// The steps of the iteration for one matrix, in terms of a product that each device has of its own.
#pragma once
#include <algorithm>
#include <cmath>

#include "framework/core/tensor.h"

namespace tapeformer::kernels {

// Product: (View c, View a, bool transpose_a, View b, bool transpose_b, double alpha, bool add) with c (+)= alpha op(a) op(b).
template <class T, class Product>
class PseudoInverseSteps {
 public:
  PseudoInverseSteps(int64_t size, Product product) : m_(size), product_(std::move(product)) {}

  // Two matrices of scratch: work and next. `keep(t)` gives four matrices below each other for iteration t.
  template <class Keep>
  void forward(View<const T> a, View<T> z, int iterations, Keep keep, View<T> work) {
    const Norms norms(a);
    for (int64_t i = 0; i < m_; ++i)
      for (int64_t j = 0; j < m_; ++j) z.row(i)[j] = static_cast<T>(norms.factor() * static_cast<double>(a.row(j)[i]));
    for (int t = 0; t < iterations; ++t) {
      const View<T> kept = keep(t), held = part(kept, 0), p = part(kept, 1), u = part(kept, 2), r = part(kept, 3);
      for (int64_t i = 0; i < m_; ++i) std::copy_n(z.row(i), m_, held.row(i));
      product_(p, a, false, held, false, 1, false);
      seven_minus(p, work);
      product_(u, p, false, work, false, -1, false);
      add_to_diagonal(u, 15);
      product_(r, p, false, u, false, -1, false);
      add_to_diagonal(r, 13);
      product_(z, held, false, r, false, 0.25, false);
    }
  }

  // da += ...; `dz` is used up. Scratch: four matrices below each other.
  template <class Kept>
  void backward(View<const T> a, int iterations, Kept kept_of, View<T> dz, View<T> scratch, View<T> da) {
    const View<T> work = part(scratch, 0), dr = part(scratch, 1), du = part(scratch, 2), dp = part(scratch, 3);
    for (int t = iterations - 1; t >= 0; --t) {
      const View<const T> kept = kept_of(t), z = part(kept, 0), p = part(kept, 1), u = part(kept, 2), r = part(kept, 3);
      product_(dr, z, true, dz, false, 0.25, false);    // of R: Z' dZ' / 4
      product_(work, dz, false, r, true, 0.25, false);  // of Z: dZ' R' / 4
      for (int64_t i = 0; i < m_; ++i) std::copy_n(work.row(i), m_, dz.row(i));
      product_(dp, dr, false, u, true, -1, false);  // of P in P U, and of U
      product_(du, p, true, dr, false, -1, false);
      seven_minus(p, work);
      product_(dp, du, false, work, true, -1, true);  // of P in P (7 I - P), and of P in 7 I - P
      product_(dp, p, true, du, false, 1, true);
      product_(da, dp, false, z, true, 1, true);  // of A and Z in P = A Z
      product_(dz, a, true, dp, false, 1, true);
    }
    start_backward(a, dz, da);
  }

 private:
  // The largest sum of absolute values of a column and of a row, and where it is (the first of equals).
  struct Norms {
    explicit Norms(View<const T> a) {
      for (int64_t j = 0; j < a.rows; ++j) {
        double of_column = 0, of_row = 0;
        for (int64_t i = 0; i < a.rows; ++i) {
          of_column += std::abs(static_cast<double>(a.row(i)[j]));
          of_row += std::abs(static_cast<double>(a.row(j)[i]));
        }
        if (j == 0 || of_column > columns) columns = of_column, column = j;
        if (j == 0 || of_row > rows) rows = of_row, row = j;
      }
    }
    double factor() const { return columns * rows > 0 ? 1 / (columns * rows) : 0; }
    double columns = 0, rows = 0;
    int64_t column = 0, row = 0;
  };

  template <class U>
  View<U> part(View<U> of, int64_t i) const {
    return {of.row(i * m_), m_, m_, of.stride};
  }
  void seven_minus(View<const T> p, View<T> out) const {
    for (int64_t i = 0; i < m_; ++i) {
      for (int64_t j = 0; j < m_; ++j) out.row(i)[j] = -p.row(i)[j];
      out.row(i)[i] += 7;
    }
  }
  void add_to_diagonal(View<T> x, T value) const {
    for (int64_t i = 0; i < m_; ++i) x.row(i)[i] += value;
  }

  // Z_0 = c A' with c = 1 / (|A|_1 |A|_inf): dA += c dZ_0', and for c itself the entries of the largest column and row.
  void start_backward(View<const T> a, View<const T> dz, View<T> da) const {
    const Norms norms(a);
    double along = 0;
    for (int64_t i = 0; i < m_; ++i)
      for (int64_t j = 0; j < m_; ++j) {
        along += static_cast<double>(a.row(i)[j]) * static_cast<double>(dz.row(j)[i]);
        da.row(i)[j] += static_cast<T>(norms.factor() * static_cast<double>(dz.row(j)[i]));
      }
    if (norms.factor() == 0) return;
    const auto sign = [](T x) { return static_cast<double>((x > 0) - (x < 0)); };
    for (int64_t i = 0; i < m_; ++i) {
      da.row(i)[norms.column] -= static_cast<T>(norms.factor() / norms.columns * along * sign(a.row(i)[norms.column]));
      da.row(norms.row)[i] -= static_cast<T>(norms.factor() / norms.rows * along * sign(a.row(norms.row)[i]));
    }
  }

  int64_t m_;
  Product product_;
};

}  // namespace tapeformer::kernels
