// SPDX-License-Identifier: Apache-2.0
// Sinkhorn normalisation on the cpu device. A step only moves one vector: with L = start - r_u - c_v, normalising the rows sets
// r_u = lse_v(start - c_v) and normalising the columns c_v = lse_u(start - r_u). The vectors of all steps are kept for the backward.
#include "framework/kernels/sinkhorn.h"

#include <algorithm>
#include <cmath>

#include "framework/core/parallel.h"

namespace tapeformer::kernels {
namespace {

// One matrix: its start, and the vectors after each step.
struct Steps {
  int64_t n;
  std::vector<float> start, transposed;  // [n,n]
  std::vector<float> rows, columns;      // [iterations][n], [iterations + 1][n] beginning with zeros

  const float* row_terms(int k) const { return rows.data() + k * n; }
  const float* column_terms(int k) const { return columns.data() + k * n; }  // after k iterations
};

// out_i = log sum over j of exp(x_ij - minus_j)
void log_sums(const float* x, int64_t n, const float* minus, float* out, std::vector<float>& line) {
  for (int64_t i = 0; i < n; ++i, x += n) {
    float largest = x[0] - minus[0];
    for (int64_t j = 0; j < n; ++j) {
      line[static_cast<size_t>(j)] = x[j] - minus[j];
      largest = std::max(largest, line[static_cast<size_t>(j)]);
    }
    double sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += static_cast<double>(std::exp(line[static_cast<size_t>(j)] - largest));
    out[i] = largest + static_cast<float>(std::log(sum));
  }
}

Steps run_steps(const SinkhornCall& call, View<const float> scores, View<const float> noise, int64_t row, int64_t column, int64_t n) {
  const auto size = static_cast<size_t>(n * n), line = static_cast<size_t>(n);
  Steps s{n, std::vector<float>(size), std::vector<float>(size), std::vector<float>(line * static_cast<size_t>(call.iterations)),
          std::vector<float>(line * static_cast<size_t>(call.iterations + 1))};
  const auto factor = static_cast<float>(1 / call.temperature);
  for (int64_t u = 0; u < n; ++u)
    for (int64_t v = 0; v < n; ++v) {
      const float score = scores.row(row + u)[column + v] + (noise.data ? noise.row(row + u)[column + v] : 0.f);
      s.start[static_cast<size_t>(u * n + v)] = s.transposed[static_cast<size_t>(v * n + u)] = factor * score;
    }
  std::vector<float> work(line);
  for (int k = 0; k < call.iterations; ++k) {
    log_sums(s.start.data(), n, s.column_terms(k), s.rows.data() + k * n, work);
    log_sums(s.transposed.data(), n, s.row_terms(k), s.columns.data() + (k + 1) * n, work);
  }
  return s;
}

// exp(L) of row u with L = start - r_u - c.
void exponentials(const Steps& s, int64_t u, float row_term, const float* column_terms, float* out) {
  const float* start = s.start.data() + u * s.n;
  for (int64_t v = 0; v < s.n; ++v) out[v] = std::exp(start[v] - row_term - column_terms[v]);
}

// d -= exp(L) times the sums of d over its rows (k-th normalisation of rows) or columns.
void step_back(const Steps& s, int k, bool rows, std::vector<float>& d, std::vector<float>& line) {
  const int64_t n = s.n;
  std::vector<double> sums(static_cast<size_t>(n));
  for (int64_t u = 0; u < n; ++u)
    for (int64_t v = 0; v < n; ++v) sums[static_cast<size_t>(rows ? u : v)] += static_cast<double>(d[static_cast<size_t>(u * n + v)]);
  for (int64_t u = 0; u < n; ++u) {
    exponentials(s, u, s.row_terms(k)[u], s.column_terms(rows ? k : k + 1), line.data());
    for (int64_t v = 0; v < n; ++v)
      d[static_cast<size_t>(u * n + v)] -= line[static_cast<size_t>(v)] * static_cast<float>(sums[static_cast<size_t>(rows ? u : v)]);
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
    const Steps s = run_steps(call, scores, noise, row, column, n);
    for (int64_t u = 0; u < n; ++u)
      exponentials(s, u, s.row_terms(call.iterations - 1)[u], s.column_terms(call.iterations), p.row(row + u) + column);
  });
}

template <>
void SinkhornBackward<float>::cpu(const Execution& on, const SinkhornCall& call, View<const float> scores, View<const float> noise,
                                  View<const float> dp, View<float> dscores, Write write) {
  if (write == Write::overwrite) clear(dscores);
  for_each_matrix(on, call, [&](int64_t row, int64_t column, int64_t n) {
    const Steps s = run_steps(call, scores, noise, row, column, n);
    std::vector<float> d(static_cast<size_t>(n * n)), line(static_cast<size_t>(n));
    for (int64_t u = 0; u < n; ++u) {
      exponentials(s, u, s.row_terms(call.iterations - 1)[u], s.column_terms(call.iterations), line.data());
      for (int64_t v = 0; v < n; ++v) d[static_cast<size_t>(u * n + v)] = line[static_cast<size_t>(v)] * dp.row(row + u)[column + v];
    }
    for (int k = call.iterations - 1; k >= 0; --k) {
      step_back(s, k, false, d, line);
      step_back(s, k, true, d, line);
    }
    const auto factor = static_cast<float>(1 / call.temperature);
    for (int64_t u = 0; u < n; ++u)
      for (int64_t v = 0; v < n; ++v) dscores.row(row + u)[column + v] += factor * d[static_cast<size_t>(u * n + v)];
  });
}

}  // namespace tapeformer::kernels
