// SPDX-License-Identifier: Apache-2.0
// Plain double loops for the oracles of attentions that are whole layers or work on features. Nothing here is used in a forward pass.
#pragma once
#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include "framework/autograd/tape.h"

namespace tapeformer::models::dense {

// Rows of `columns` numbers.
struct Rows {
  size_t count = 0, columns = 0;
  std::vector<double> values;
  double at(size_t r, size_t c) const { return values[r * columns + c]; }
};

inline Rows rows(std::span<const double> x, size_t columns) { return {x.size() / columns, columns, {x.begin(), x.end()}}; }
inline Rows rows(const Parameter& p) {
  const Tensor t = p.value.converted(Dtype::f64);
  return rows({t.data<double>(), static_cast<size_t>(t.count())}, static_cast<size_t>(t.count() / t.shape()[0]));
}

// x W' + b, W rows first ... first + out - 1 of the weight.
inline Rows linear(const Rows& x, const Parameter& weight, const Parameter& bias, size_t first, size_t out) {
  const Rows w = rows(weight), b = rows(bias);
  Rows y{x.count, out, {}};
  for (size_t r = 0; r < x.count; ++r)
    for (size_t o = 0; o < out; ++o) {
      double sum = b.values[first + o];
      for (size_t c = 0; c < x.columns; ++c) sum += w.at(first + o, c) * x.at(r, c);
      y.values.push_back(sum);
    }
  return y;
}

// softmax of <q_i, k_j> / sqrt(D) over the keys j with allowed(i, j): [n,m] for the rows of q [n,D] and k [m,D]; a row without keys is 0.
template <class Allowed>
std::vector<double> softmax_weights(std::span<const double> q, std::span<const double> k, size_t d, const Allowed& allowed) {
  const size_t n = q.size() / d, m = k.size() / d;
  std::vector<double> weights(n * m);
  for (size_t i = 0; i < n; ++i) {
    double sum = 0;
    for (size_t j = 0; j < m; ++j) {
      if (!allowed(i, j)) continue;
      double score = 0;
      for (size_t c = 0; c < d; ++c) score += q[i * d + c] * k[j * d + c];
      sum += weights[i * m + j] = std::exp(score / std::sqrt(static_cast<double>(d)));
    }
    for (size_t j = 0; j < m && sum > 0; ++j) weights[i * m + j] /= sum;
  }
  return weights;
}
inline std::vector<double> softmax_weights(std::span<const double> q, std::span<const double> k, size_t d) {
  return softmax_weights(q, k, d, [](size_t, size_t) { return true; });
}

// Weights of m keys a row, times what the probability of (row, key) is multiplied by; empty: 1.
inline void drop(std::vector<double>& weights, size_t m, const std::function<double(int32_t, int32_t)>& kept) {
  for (size_t e = 0; kept && e < weights.size(); ++e) weights[e] *= kept(static_cast<int32_t>(e / m), static_cast<int32_t>(e % m));
}

// weights [n,m] times v [m,D]: [n,D]
inline std::vector<double> weighted(std::span<const double> weights, std::span<const double> v, size_t d) {
  const size_t m = v.size() / d, n = m == 0 ? 0 : weights.size() / m;
  std::vector<double> o(n * d);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < m; ++j)
      for (size_t c = 0; c < d; ++c) o[i * d + c] += weights[i * m + j] * v[j * d + c];
  return o;
}

// Columns first ... first + d - 1.
inline std::vector<double> columns(const Rows& x, size_t first, size_t d) {
  std::vector<double> out;
  for (size_t r = 0; r < x.count; ++r)
    for (size_t c = first; c < first + d; ++c) out.push_back(x.at(r, c));
  return out;
}

// softmax(q k' / sqrt(D)) v for each head; without keys 0.
inline Rows attention(const Rows& q, const Rows& k, const Rows& v, size_t heads) {
  const size_t d = q.columns / heads;
  Rows o{q.count, q.columns, std::vector<double>(q.count * q.columns)};
  for (size_t first = 0; first < o.columns; first += d) {
    const std::vector<double> of_head =
        weighted(softmax_weights(columns(q, first, d), columns(k, first, d), d), columns(v, first, d), d);
    for (size_t i = 0; i < of_head.size(); ++i) o.values[i / d * o.columns + first + i % d] = of_head[i];
  }
  return o;
}

}  // namespace tapeformer::models::dense
