// SPDX-License-Identifier: Apache-2.0
// Plain double loops for the oracles of attentions that are whole layers or work on features. Nothing here is used in a forward pass.
#pragma once
#include <cmath>
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

// softmax(q k' / sqrt(D)) v for each head; without keys 0.
inline Rows attention(const Rows& q, const Rows& k, const Rows& v, size_t heads) {
  const size_t d = q.columns / heads;
  Rows o{q.count, q.columns, std::vector<double>(q.count * q.columns)};
  for (size_t h = 0; h < heads; ++h)
    for (size_t i = 0; i < q.count; ++i) {
      double total = 0;
      for (size_t j = 0; j < k.count; ++j) {
        double score = 0;
        for (size_t c = h * d; c < (h + 1) * d; ++c) score += q.at(i, c) * k.at(j, c);
        const double e = std::exp(score / std::sqrt(static_cast<double>(d)));
        total += e;
        for (size_t c = h * d; c < (h + 1) * d; ++c) o.values[i * o.columns + c] += e * v.at(j, c);
      }
      for (size_t c = h * d; c < (h + 1) * d && total > 0; ++c) o.values[i * o.columns + c] /= total;
    }
  return o;
}

// [n,n]: <f_i, g_j> over denominator(their sum over j), from the features of n queries and n keys.
template <class Denominator>
std::vector<double> feature_weights(const std::vector<std::vector<double>>& f, const std::vector<std::vector<double>>& g,
                                    const Denominator& denominator) {
  const size_t n = f.size();
  std::vector<double> weights(n * n);
  for (size_t i = 0; i < n; ++i) {
    double sum = 0;
    for (size_t j = 0; j < n; ++j) {
      for (size_t r = 0; r < f[i].size(); ++r) weights[i * n + j] += f[i][r] * g[j][r];
      sum += weights[i * n + j];
    }
    for (size_t j = 0; j < n; ++j) weights[i * n + j] /= denominator(sum);
  }
  return weights;
}

}  // namespace tapeformer::models::dense
