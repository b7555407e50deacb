// SPDX-License-Identifier: Apache-2.0
// Synthetic attention on the reference device, a row of probabilities at a time.
#include "framework/kernels/synthetic_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels {
namespace {

// One head of one sequence.
template <class T>
struct Head {
  const SyntheticCall<T>& call;
  int b, h;
  int64_t first_row, n;

  int64_t seen(int64_t i) const { return call.causal ? i + 1 : n; }
  const T* at(const View<const T>& x, int64_t i) const { return x.row(first_row + i) + int64_t{h} * call.head_dim; }
  T factor(int64_t i, int64_t c, const View<const T>& x, int64_t width) const { return x.row(first_row + i)[h * width + c]; }
  double dot(const T* x, const T* y) const {
    double sum = 0;
    for (int d = 0; d < call.head_dim; ++d) sum += static_cast<double>(x[d]) * y[d];
    return sum;
  }
  double score(int64_t i, int64_t j) const {
    double s = 0;
    if (call.table.data) s += call.table.row(h * call.most + i)[j];
    if (call.first.data)
      s += static_cast<double>(factor(i, j % call.inner, call.first, call.inner)) * factor(i, j / call.inner, call.second, call.outer);
    if (call.q.data) s += call.scale * dot(at(call.q, i), at(call.k, j));
    return s;
  }
  std::vector<double> probabilities(int64_t i) const {
    std::vector<double> p;
    for (int64_t j = 0; j < seen(i); ++j) p.push_back(score(i, j));
    const double largest = *std::max_element(p.begin(), p.end());
    double sum = 0;
    for (double& x : p) sum += x = std::exp(x - largest);
    for (double& x : p) x /= sum;
    return p;
  }
  double kept(int64_t i, int64_t j) const {
    if (!call.dropout.on()) return 1;
    return reference::dropout_factor(call.dropout, call.dropout_keys[h], call.packing->sample_ids()[static_cast<size_t>(b)], i, j);
  }
};

template <class T, class Body>
void for_each_head(const SyntheticCall<T>& call, const Body& body) {
  for (int b = 0; b < call.packing->sequences(); ++b)
    for (int h = 0; h < call.heads; ++h)
      body(Head<T>{call, b, h, call.packing->offsets()[static_cast<size_t>(b)], call.packing->length(b)});
}

template <class T>
void add(T& place, double value) {
  reference::store(place, value, Write::add);
}

}  // namespace

template <class T>
void SyntheticForward<T>::reference(const Execution&, const SyntheticCall<T>& call, View<T> o) {
  for_each_head(call, [&](const Head<T>& head) {
    for (int64_t i = 0; i < head.n; ++i) {
      const std::vector<double> p = head.probabilities(i);
      for (int d = 0; d < call.head_dim; ++d) {
        double sum = 0;
        for (int64_t j = 0; j < head.seen(i); ++j) sum += head.kept(i, j) * p[static_cast<size_t>(j)] * head.at(call.v, j)[d];
        o.row(head.first_row + i)[head.h * call.head_dim + d] = static_cast<T>(sum);
      }
    }
  });
}

// dP = (dO V') M, dS = P (dP - sum of dP P), and dS goes to whatever the score was made of.
template <class T>
void SyntheticBackward<T>::reference(const Execution&, const SyntheticCall<T>& call, View<const T> d_o, const SyntheticGradients<T>& to) {
  for_each_head(call, [&](const Head<T>& head) {
    const int64_t column = int64_t{head.h} * call.head_dim;
    for (int64_t i = 0; i < head.n; ++i) {
      const std::vector<double> p = head.probabilities(i);
      const T* const g = head.at(d_o, i);
      std::vector<double> ds;
      double sum = 0;
      for (int64_t j = 0; j < head.seen(i); ++j) sum += p[static_cast<size_t>(j)] * ds.emplace_back(head.kept(i, j) * head.dot(g, head.at(call.v, j)));
      for (int64_t j = 0; j < head.seen(i); ++j) {
        double& s = ds[static_cast<size_t>(j)];
        s = p[static_cast<size_t>(j)] * (s - sum);
        const int64_t row = head.first_row + i, key = head.first_row + j;
        if (to.table.data) add(to.table.row(head.h * call.most + i)[j], s);
        if (call.first.data) {
          const int64_t in = j % call.inner, out = j / call.inner;
          if (to.first.data) add(to.first.row(row)[head.h * call.inner + in], s * head.factor(i, out, call.second, call.outer));
          if (to.second.data) add(to.second.row(row)[head.h * call.outer + out], s * head.factor(i, in, call.first, call.inner));
        }
        for (int d = 0; d < call.head_dim; ++d) {
          if (to.q.data) add(to.q.row(row)[column + d], call.scale * s * head.at(call.k, j)[d]);
          if (to.k.data) add(to.k.row(key)[column + d], call.scale * s * head.at(call.q, i)[d]);
          if (to.v.data) add(to.v.row(key)[column + d], head.kept(i, j) * p[static_cast<size_t>(j)] * g[d]);
        }
      }
    }
  });
}

template decltype(SyntheticForward<float>::reference) SyntheticForward<float>::reference;
template decltype(SyntheticForward<double>::reference) SyntheticForward<double>::reference;
template decltype(SyntheticBackward<float>::reference) SyntheticBackward<float>::reference;
template decltype(SyntheticBackward<double>::reference) SyntheticBackward<double>::reference;

}  // namespace tapeformer::kernels
