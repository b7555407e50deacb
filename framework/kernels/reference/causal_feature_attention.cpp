// SPDX-License-Identifier: Apache-2.0
// Causal attention on feature maps on the reference device: the quadratic form, pair by pair, without a state.
#include "framework/kernels/causal_feature_attention.h"

#include <algorithm>
#include <cmath>

#include "framework/kernels/reference/feature_head.h"

namespace tapeformer::kernels {
namespace {

using reference::FeatureHead;
using reference::Values;

// Weights of the pairs of one head before they are divided: w_ij = sum_r f_ir g_jr with g in the scale of row i, and for the columns'
// softmax divided by their sum up to row i.
template <class T>
class Pairs {
 public:
  Pairs(const FeatureAttentionCall<T>& call, const FeatureHead<T>& head)
      : g(head.features(true)),
        f(head.features(false)),
        head_(head),
        features_(call.features),
        shifted_(shifts_per_key(call.map, call.features) > 0),
        softmax_(call.map == FeatureMap::softmax) {}

  const Values g, f;  // [rows][features]

  size_t at(int32_t i, int r) const { return static_cast<size_t>(i) * static_cast<size_t>(features_) + static_cast<size_t>(r); }
  // The row whose pairs are asked for from here on.
  void look_from(int32_t i) {
    row_ = i;
    sums_.assign(static_cast<size_t>(features_), softmax_ ? 0 : 1);
    for (int32_t j = 0; softmax_ && j <= i; ++j)
      for (int r = 0; r < features_; ++r) sums_[static_cast<size_t>(r)] += g[at(j, r)] * below(j, r);
  }
  // What the row makes of the exponential in feature r of key j.
  double factor(int32_t j, int r) const { return below(j, r) / sums_[static_cast<size_t>(r)]; }
  double key(int32_t j, int r) const {
    const double offset = head_.exponential_offset();
    return (g[at(j, r)] - offset) * factor(j, r) + offset;
  }
  double weight(int32_t j) const {
    double sum = 0;
    for (int r = 0; r < features_; ++r) sum += f[at(row_, r)] * key(j, r);
    return sum;
  }

 private:
  double below(int32_t j, int r) const { return shifted_ ? std::exp(head_.key_shift(j, r) - head_.key_shift(row_, r)) : 1; }

  const FeatureHead<T>& head_;
  int features_;
  bool shifted_, softmax_;
  int32_t row_ = 0;
  Values sums_;
};

}  // namespace

template <class T>
void CausalFeatureAttentionForward<T>::reference(const Execution&, const FeatureAttentionCall<T>& call, View<T> o, T*, T* denominator) {
  const int dims = call.head_dim;
  reference::for_each_head(call, true, [&](const FeatureHead<T>& head) {
    Pairs<T> pairs(call, head);
    for (int32_t i = 0; i < head.rows(); ++i) {
      pairs.look_from(i);
      Values sums(static_cast<size_t>(dims));
      double raw = 0;
      for (int32_t j = 0; j <= i; ++j) {
        const double weight = pairs.weight(j);
        raw += weight;
        for (int e = 0; e < dims; ++e) sums[static_cast<size_t>(e)] += weight * head.at(call.v, j, dims)[e];
      }
      const double kept = call.denominator == Denominator::add ? raw + call.epsilon : raw;
      const double den = reference::divisor_of(call, kept).by;
      denominator[head.place(i)] = static_cast<T>(kept);
      for (int e = 0; e < dims; ++e) head.at(o, i, dims)[e] = static_cast<T>(sums[static_cast<size_t>(e)] / den);
    }
  });
}

template <class T>
void CausalFeatureAttentionBackward<T>::reference(const Execution&, const FeatureAttentionCall<T>& call, View<const T> o, const T*,
                                                  const T* denominator, View<const T> d_o, View<T> dq, View<T> dk, View<T> dv,
                                                  T* d_matrix) {
  FeatureAttentionCall<T> again = call;
  again.shifts_given = true;
  const int m = call.features, dims = call.head_dim;
  reference::for_each_head(again, true, [&](const FeatureHead<T>& head) {
    Pairs<T> pairs(again, head);
    const auto n = static_cast<size_t>(head.rows());
    Values dg(n * static_cast<size_t>(m)), d_values(n * static_cast<size_t>(dims)), df(static_cast<size_t>(m));
    for (int32_t i = 0; i < head.rows(); ++i) {
      const auto [den, slope] = reference::divisor_of(call, denominator[head.place(i)]);
      double along = 0;  // of d den: minus <do, o> / den, with the sign of z . f
      for (int e = 0; e < dims; ++e) along -= slope * head.at(d_o, i, dims)[e] * head.at(o, i, dims)[e] / den;
      pairs.look_from(i);
      std::fill(df.begin(), df.end(), 0);
      Values d_weights;
      for (int32_t j = 0; j <= i; ++j) {
        const double weight = pairs.weight(j);
        double& d_weight = d_weights.emplace_back(along);
        for (int e = 0; e < dims; ++e) {
          const double row = head.at(d_o, i, dims)[e] / den;
          d_weight += row * head.at(call.v, j, dims)[e];
          d_values[static_cast<size_t>(j * dims + e)] += weight * row;
        }
        for (int r = 0; r < m; ++r) df[static_cast<size_t>(r)] += d_weight * pairs.key(j, r);
      }
      // A softmax takes the mean of the gradients, which is df.
      for (int32_t j = 0; j <= i; ++j)
        for (int r = 0; r < m; ++r) {
          const double mean = call.map == FeatureMap::softmax ? df[static_cast<size_t>(r)] : 0;
          dg[pairs.at(j, r)] += (d_weights[static_cast<size_t>(j)] - mean) * pairs.f[pairs.at(i, r)] * pairs.factor(j, r);
        }
      head.pull(false, i, pairs.f, df, head.at(dq, i, call.input_dim), d_matrix);
    }
    for (int32_t j = 0; j < head.rows(); ++j) {
      for (int e = 0; e < dims; ++e) head.at(dv, j, dims)[e] = static_cast<T>(d_values[static_cast<size_t>(j * dims + e)]);
      std::copy_n(dg.begin() + static_cast<std::ptrdiff_t>(pairs.at(j, 0)), m, df.begin());
      head.pull(true, j, pairs.g, df, head.at(dk, j, call.input_dim), d_matrix);
    }
  });
}

template decltype(CausalFeatureAttentionForward<float>::reference) CausalFeatureAttentionForward<float>::reference;
template decltype(CausalFeatureAttentionForward<double>::reference) CausalFeatureAttentionForward<double>::reference;
template decltype(CausalFeatureAttentionBackward<float>::reference) CausalFeatureAttentionBackward<float>::reference;
template decltype(CausalFeatureAttentionBackward<double>::reference) CausalFeatureAttentionBackward<double>::reference;

}  // namespace tapeformer::kernels
