// SPDX-License-Identifier: Apache-2.0
// Sinkhorn normalisation on the reference device: the matrix itself is normalised again and again, and every step is kept for the backward.
#include "framework/kernels/sinkhorn.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels {
namespace {

struct Square {
  int64_t n;
  std::vector<double> values;
  explicit Square(int64_t size) : n(size), values(static_cast<size_t>(size * size)) {}
  // Along rows: line i, element j; along columns: the other way round.
  double& at(bool rows, int64_t i, int64_t j) { return values[static_cast<size_t>(rows ? i * n + j : j * n + i)]; }
};

void normalise(Square& l, bool rows) {
  for (int64_t i = 0; i < l.n; ++i) {
    double largest = l.at(rows, i, 0), sum = 0;
    for (int64_t j = 1; j < l.n; ++j) largest = std::max(largest, l.at(rows, i, j));
    for (int64_t j = 0; j < l.n; ++j) sum += std::exp(l.at(rows, i, j) - largest);
    for (int64_t j = 0; j < l.n; ++j) l.at(rows, i, j) -= largest + std::log(sum);
  }
}

// Row u becomes the softmax of its columns before u.
void normalise_before(Square& l) {
  for (int64_t u = 0; u < l.n; ++u) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t v = 0; v < u; ++v) largest = std::max(largest, l.at(true, u, v));
    for (int64_t v = 0; v < u; ++v) sum += std::exp(l.at(true, u, v) - largest);
    for (int64_t v = 0; v < l.n; ++v) l.at(true, u, v) = v < u ? std::exp(l.at(true, u, v) - largest) / sum : 0;
  }
}

template <class T>
Square start(const SinkhornCall& call, View<const T> scores, View<const T> noise, int64_t row, int64_t column, int64_t n) {
  Square l(n);
  for (int64_t u = 0; u < n; ++u)
    for (int64_t v = 0; v < n; ++v)
      l.at(true, u, v) = (static_cast<double>(scores.row(row + u)[column + v]) + (noise.data ? noise.row(row + u)[column + v] : 0)) / call.temperature;
  return l;
}

// Calls body(first row, first column, size) for each matrix.
template <class Body>
void for_each_matrix(const SinkhornCall& call, const Body& body) {
  for (int b = 0; b < call.blocks->sequences(); ++b)
    for (int h = 0; h < call.heads; ++h) body(int64_t{call.blocks->offsets()[static_cast<size_t>(b)]}, h * call.width, int64_t{call.blocks->length(b)});
}

}  // namespace

template <class T>
void SinkhornForward<T>::reference(const Execution&, const SinkhornCall& call, View<const T> scores, View<const T> noise, View<T> p) {
  for (int64_t r = 0; r < p.rows; ++r) std::fill_n(p.row(r), p.columns, T{0});
  for_each_matrix(call, [&](int64_t row, int64_t column, int64_t n) {
    Square l = start(call, scores, noise, row, column, n);
    if (call.causal) normalise_before(l);
    for (int k = 0; k < call.iterations && !call.causal; ++k) {
      normalise(l, true);
      normalise(l, false);
    }
    for (int64_t u = 0; u < n; ++u)
      for (int64_t v = 0; v < n; ++v)
        p.row(row + u)[column + v] = static_cast<T>(call.causal ? l.at(true, u, v) : std::exp(l.at(true, u, v)));
  });
}

template <class T>
void SinkhornBackward<T>::reference(const Execution&, const SinkhornCall& call, View<const T> scores, View<const T> noise, View<const T> dp,
                                    View<T> dscores, Write write) {
  if (write == Write::overwrite)
    for (int64_t r = 0; r < dscores.rows; ++r) std::fill_n(dscores.row(r), dscores.columns, T{0});
  for_each_matrix(call, [&](int64_t row, int64_t column, int64_t n) {
    std::vector<Square> steps;
    Square l = start(call, scores, noise, row, column, n), d(n);
    if (call.causal) {
      normalise_before(l);
      for (int64_t u = 0; u < n; ++u) {
        double sum = 0;
        for (int64_t v = 0; v < u; ++v) sum += l.at(true, u, v) * dp.row(row + u)[column + v];
        for (int64_t v = 0; v < u; ++v)
          reference::store(dscores.row(row + u)[column + v], l.at(true, u, v) * (dp.row(row + u)[column + v] - sum) / call.temperature,
                           Write::add);
      }
      return;
    }
    for (int k = 0; k < 2 * call.iterations; ++k) {
      normalise(l, k % 2 == 0);
      steps.push_back(l);
    }
    for (int64_t u = 0; u < n; ++u)
      for (int64_t v = 0; v < n; ++v) d.at(true, u, v) = std::exp(l.at(true, u, v)) * dp.row(row + u)[column + v];
    for (int k = 2 * call.iterations - 1; k >= 0; --k) {
      const bool rows = k % 2 == 0;
      for (int64_t i = 0; i < n; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < n; ++j) sum += d.at(rows, i, j);
        for (int64_t j = 0; j < n; ++j) d.at(rows, i, j) -= std::exp(steps[static_cast<size_t>(k)].at(rows, i, j)) * sum;
      }
    }
    for (int64_t u = 0; u < n; ++u)
      for (int64_t v = 0; v < n; ++v) reference::store(dscores.row(row + u)[column + v], d.at(true, u, v) / call.temperature, Write::add);
  });
}

template decltype(SinkhornForward<float>::reference) SinkhornForward<float>::reference;
template decltype(SinkhornForward<double>::reference) SinkhornForward<double>::reference;
template decltype(SinkhornBackward<float>::reference) SinkhornBackward<float>::reference;
template decltype(SinkhornBackward<double>::reference) SinkhornBackward<double>::reference;

}  // namespace tapeformer::kernels
