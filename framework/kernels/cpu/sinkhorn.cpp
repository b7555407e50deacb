// SPDX-License-Identifier: Apache-2.0
// Sinkhorn normalisation on the cpu device. A step only moves one vector: with L = start - r_u - c_v, normalising the rows sets
// r_u = lse_v(start - c_v) and normalising the columns c_v = lse_u(start - r_u), and exp(L) after it is a softmax of rows or columns. The
// vectors of all steps are kept for the backward.
#include "framework/kernels/sinkhorn.h"

#include <algorithm>
#include <cmath>

#include "framework/core/parallel.h"
#include "framework/kernels/cpu/simd/softmax.h"

namespace tapeformer::kernels {
namespace {

using Square = std::vector<float>;  // [n,n]

Square transposed(const Square& x, int64_t n) {
  constexpr int64_t tile = 16;
  Square y(x.size());
  for (int64_t i0 = 0; i0 < n; i0 += tile)
    for (int64_t j0 = 0; j0 < n; j0 += tile)
      for (int64_t i = i0; i < std::min(n, i0 + tile); ++i)
        for (int64_t j = j0; j < std::min(n, j0 + tile); ++j) y[static_cast<size_t>(j * n + i)] = x[static_cast<size_t>(i * n + j)];
  return y;
}

// y = softmax over the rows of x - minus.
void softmax_without(const Square& x, int64_t n, const float* minus, Square& y) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) y[static_cast<size_t>(i * n + j)] = x[static_cast<size_t>(i * n + j)] - minus[j];
  const int size = static_cast<int>(n);
  simd::softmax(size, size, {y.data(), n}, {y.data(), n});
}

// The same, and lse_i = log sum over j of exp(x_ij - minus_j): what the largest element lost.
void normalise(const Square& x, int64_t n, const float* minus, float* lse, Square& y) {
  softmax_without(x, n, minus, y);
  for (int64_t i = 0; i < n; ++i) {
    const float* row = y.data() + i * n;
    const int64_t j = std::max_element(row, row + n) - row;
    lse[i] = x[static_cast<size_t>(i * n + j)] - minus[j] - std::log(row[j]);
  }
}

// One matrix: its start, the vectors after each step, and exp(L) after the last.
struct Steps {
  int64_t n;
  Square by_row, by_column;          // the start and its transpose
  std::vector<float> rows, columns;  // [iterations][n], [iterations + 1][n] beginning with zeros
  Square p;                          // transposed

  const float* row_terms(int k) const { return rows.data() + k * n; }
  const float* column_terms(int k) const { return columns.data() + k * n; }  // after k iterations
};

Steps run_steps(const SinkhornCall& call, View<const float> scores, View<const float> noise, int64_t row, int64_t column, int64_t n) {
  const auto size = static_cast<size_t>(n * n), line = static_cast<size_t>(n), steps = static_cast<size_t>(call.iterations);
  Steps s{n, Square(size), {}, std::vector<float>(line * steps), std::vector<float>(line * (steps + 1)), Square(size)};
  const auto factor = static_cast<float>(1 / call.temperature);
  for (int64_t u = 0; u < n; ++u)
    for (int64_t v = 0; v < n; ++v)
      s.by_row[static_cast<size_t>(u * n + v)] = factor * (scores.row(row + u)[column + v] + (noise.data ? noise.row(row + u)[column + v] : 0.f));
  s.by_column = transposed(s.by_row, n);
  for (int k = 0; k < call.iterations; ++k) {
    normalise(s.by_row, n, s.column_terms(k), s.rows.data() + k * n, s.p);
    normalise(s.by_column, n, s.row_terms(k), s.columns.data() + (k + 1) * n, s.p);
  }
  return s;
}

// d_i -= exp(L)_i times the sum of d_i, for each row i.
void step_back(const Square& exponentials, int64_t n, Square& d) {
  for (int64_t i = 0; i < n; ++i) {
    const float* e = exponentials.data() + i * n;
    float* const row = d.data() + i * n;
    double sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += static_cast<double>(row[j]);
    for (int64_t j = 0; j < n; ++j) row[j] -= e[j] * static_cast<float>(sum);
  }
}

// Calls body(first row, first column, size) for each matrix, each a task.
template <class Body>
void for_each_matrix(const Execution& on, const SinkhornCall& call, const Body& body) {
  on.threads->run(int64_t{call.blocks->sequences()} * call.heads, [&](int64_t task) {
    const int b = static_cast<int>(task / call.heads);
    if (call.blocks->length(b) > 0)
      body(int64_t{call.blocks->offsets()[static_cast<size_t>(b)]}, task % call.heads * call.width, int64_t{call.blocks->length(b)});
  });
}

void clear(View<float> x) {
  for (int64_t r = 0; r < x.rows; ++r) std::fill_n(x.row(r), x.columns, 0.f);
}

}  // namespace

template <>
void SinkhornForward<float>::cpu(const Execution& on, const SinkhornCall& call, View<const float> scores, View<const float> noise,
                                 View<float> p) {
  clear(p);
  for_each_matrix(on, call, [&](int64_t row, int64_t column, int64_t n) {
    const Square own = transposed(run_steps(call, scores, noise, row, column, n).p, n);
    for (int64_t u = 0; u < n; ++u) std::copy_n(own.data() + u * n, n, p.row(row + u) + column);
  });
}

template <>
void SinkhornBackward<float>::cpu(const Execution& on, const SinkhornCall& call, View<const float> scores, View<const float> noise,
                                  View<const float> dp, View<float> dscores, Write write) {
  if (write == Write::overwrite) clear(dscores);
  for_each_matrix(on, call, [&](int64_t row, int64_t column, int64_t n) {
    Steps s = run_steps(call, scores, noise, row, column, n);
    Square d = transposed(s.p, n);
    for (int64_t u = 0; u < n; ++u)
      for (int64_t v = 0; v < n; ++v) d[static_cast<size_t>(u * n + v)] *= dp.row(row + u)[column + v];
    for (int k = call.iterations - 1; k >= 0; --k) {
      d = transposed(d, n);
      if (k + 1 < call.iterations) softmax_without(s.by_column, n, s.row_terms(k), s.p);
      step_back(s.p, n, d);
      d = transposed(d, n);
      softmax_without(s.by_row, n, s.column_terms(k), s.p);
      step_back(s.p, n, d);
    }
    const auto factor = static_cast<float>(1 / call.temperature);
    for (int64_t u = 0; u < n; ++u)
      for (int64_t v = 0; v < n; ++v) dscores.row(row + u)[column + v] += factor * d[static_cast<size_t>(u * n + v)];
  });
}

}  // namespace tapeformer::kernels
