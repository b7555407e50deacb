// SPDX-License-Identifier: Apache-2.0
// Sinkhorn normalisation on the cpu device. A step only moves one vector: with L = start - r_u - c_v, normalising the rows sets
// r_u = lse_v(start - c_v) and normalising the columns c_v = lse_u(start - r_u). The vectors of all steps are kept for the backward.
#include "framework/kernels/sinkhorn.h"

#include <algorithm>

#include "framework/core/parallel.h"
#include "framework/kernels/cpu/simd/sinkhorn.h"
#include "framework/kernels/cpu/simd/softmax.h"

namespace tapeformer::kernels {
namespace {

// One matrix: its start, the vectors after each step, and exp(L) after the last.
struct Steps {
  int64_t n;
  std::vector<float> start, p;                // [n,n]
  std::vector<float> rows, columns, scratch;  // [iterations][n], [iterations + 1][n] beginning with zeros, [2 n]

  Steps(int64_t size, int iterations)
      : n(size),
        start(area(size, size)),
        p(area(size, size)),
        rows(area(iterations, size)),
        columns(area(iterations + 1, size)),
        scratch(area(2, size)) {}
  static size_t area(int64_t a, int64_t b) { return static_cast<size_t>(a * b); }
  float* row_terms(int k) { return rows.data() + k * n; }
  float* column_terms(int k) { return columns.data() + k * n; }  // after k iterations
  simd::SinkhornMatrix matrix() { return {static_cast<int>(n), start.data(), scratch.data()}; }
};

// Row u of p becomes the softmax of the columns before it.
void softmax_before(Steps& s) {
  for (int64_t u = 1; u < s.n; ++u) simd::softmax(1, static_cast<int>(u), {s.start.data() + u * s.n, s.n}, {s.p.data() + u * s.n, s.n});
}

Steps run_steps(const SinkhornCall& call, View<const float> scores, View<const float> noise, int64_t row, int64_t column, int64_t n) {
  Steps s(n, call.causal ? 0 : call.iterations);
  const auto factor = static_cast<float>(1 / call.temperature);
  for (int64_t u = 0; u < n; ++u) {
    const float *score = scores.row(row + u) + column, *more = noise.data ? noise.row(row + u) + column : nullptr;
    for (int64_t v = 0; v < n; ++v) s.start[static_cast<size_t>(u * n + v)] = factor * (score[v] + (more ? more[v] : 0.f));
  }
  if (call.causal) {
    softmax_before(s);
    return s;
  }
  for (int k = 0; k < call.iterations; ++k) {
    simd::sinkhorn_rows(s.matrix(), s.column_terms(k), s.row_terms(k));
    simd::sinkhorn_columns(s.matrix(), s.row_terms(k), s.column_terms(k + 1), k + 1 == call.iterations ? s.p.data() : nullptr);
  }
  return s;
}

// The gradient of L, in the place of p: through the steps, or in that of the start: through the softmaxes.
const std::vector<float>& steps_backward(const SinkhornCall& call, Steps& s, View<const float> dp, int64_t row, int64_t column) {
  for (int64_t u = 0; u < s.n; ++u)
    for (int64_t v = 0; v < s.n; ++v) s.p[static_cast<size_t>(u * s.n + v)] *= dp.row(row + u)[column + v];
  for (int k = call.iterations - 1; k >= 0; --k) {
    simd::sinkhorn_columns_backward(s.matrix(), s.row_terms(k), s.column_terms(k + 1), s.p.data());
    simd::sinkhorn_rows_backward(s.matrix(), s.row_terms(k), s.column_terms(k), s.p.data());
  }
  return s.p;
}
const std::vector<float>& softmax_before_backward(Steps& s, View<const float> dp, int64_t row, int64_t column) {
  std::fill(s.start.begin(), s.start.end(), 0.f);
  for (int64_t u = 1; u < s.n; ++u)
    simd::softmax_backward(1, static_cast<int>(u), {dp.row(row + u) + column, s.n}, {s.p.data() + u * s.n, s.n}, false,
                           {s.start.data() + u * s.n, s.n});
  return s.start;
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
    const Steps s = run_steps(call, scores, noise, row, column, n);
    for (int64_t u = 0; u < n; ++u) std::copy_n(s.p.data() + u * n, n, p.row(row + u) + column);
  });
}

template <>
void SinkhornBackward<float>::cpu(const Execution& on, const SinkhornCall& call, View<const float> scores, View<const float> noise,
                                  View<const float> dp, View<float> dscores, Write write) {
  if (write == Write::overwrite) clear(dscores);
  for_each_matrix(on, call, [&](int64_t row, int64_t column, int64_t n) {
    Steps s = run_steps(call, scores, noise, row, column, n);
    const std::vector<float>& d = call.causal ? softmax_before_backward(s, dp, row, column) : steps_backward(call, s, dp, row, column);
    const auto factor = static_cast<float>(1 / call.temperature);
    for (int64_t u = 0; u < n; ++u)
      for (int64_t v = 0; v < n; ++v) dscores.row(row + u)[column + v] += factor * d[static_cast<size_t>(u * n + v)];
  });
}

}  // namespace tapeformer::kernels
