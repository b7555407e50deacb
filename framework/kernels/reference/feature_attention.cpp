// SPDX-License-Identifier: Apache-2.0
// Linear attention on feature maps on the reference device: the features of a whole head in double, then sums over them.
#include "framework/kernels/feature_attention.h"

#include <algorithm>
#include <cmath>

#include "framework/kernels/reference/feature_head.h"

namespace tapeformer::kernels {

using reference::FeatureHead;
using reference::Values;
template <class T>
void FeatureAttentionForward<T>::reference(const Execution&, const FeatureAttentionCall<T>& call, View<T> o, T* state, T* denominator) {
  const int m = call.features, dims = call.head_dim, width = dims + 1;
  reference::for_each_head(call, false, [&](const FeatureHead<T>& head) {
    const Values g = head.features(true), f = head.features(false);
    Values s(static_cast<size_t>(m * width));
    for (int32_t j = 0; j < head.rows(); ++j)
      for (int r = 0; r < m; ++r)
        for (int e = 0; e < width; ++e)
          s[static_cast<size_t>(r * width + e)] += g[static_cast<size_t>(j * m + r)] * (e < dims ? head.at(call.v, j, dims)[e] : 1);
    for (int32_t i = 0; i < head.rows(); ++i) {
      Values sums(static_cast<size_t>(width));
      for (int r = 0; r < m; ++r)
        for (int e = 0; e < width; ++e)
          sums[static_cast<size_t>(e)] += f[static_cast<size_t>(i * m + r)] * s[static_cast<size_t>(r * width + e)];
      const double kept = sums[static_cast<size_t>(dims)] + (call.denominator == Denominator::add ? call.epsilon : 0);
      const double den = reference::divisor_of(call, kept).by;
      denominator[head.place(i)] = static_cast<T>(kept);
      for (int e = 0; e < dims; ++e) head.at(o, i, dims)[e] = static_cast<T>(sums[static_cast<size_t>(e)] / den);
    }
    for (size_t n = 0; n < s.size(); ++n) state[head.index() * m * width + static_cast<int64_t>(n)] = static_cast<T>(s[n]);
  });
}

template <class T>
void FeatureAttentionBackward<T>::reference(const Execution&, const FeatureAttentionCall<T>& call, View<const T> o, const T* state,
                                            const T* denominator, View<const T> d_o, View<T> dq, View<T> dk, View<T> dv, T* d_matrix) {
  FeatureAttentionCall<T> again = call;
  again.shifts_given = true;
  const int m = call.features, dims = call.head_dim, width = dims + 1;
  reference::for_each_head(again, false, [&](const FeatureHead<T>& head) {
    const Values g = head.features(true), f = head.features(false);
    const T* s = state + head.index() * m * width;
    Values ds(static_cast<size_t>(m * width)), row(static_cast<size_t>(width)), df(static_cast<size_t>(m));
    for (int32_t i = 0; i < head.rows(); ++i) {
      const auto [den, slope] = reference::divisor_of(call, denominator[head.place(i)]);
      double e_i = 0;
      for (int e = 0; e < dims; ++e) {
        row[static_cast<size_t>(e)] = head.at(d_o, i, dims)[e] / den;
        e_i -= row[static_cast<size_t>(e)] * head.at(o, i, dims)[e];
      }
      row[static_cast<size_t>(dims)] = slope * e_i;
      for (int r = 0; r < m; ++r) {
        df[static_cast<size_t>(r)] = 0;
        for (int e = 0; e < width; ++e) {
          df[static_cast<size_t>(r)] += s[r * width + e] * row[static_cast<size_t>(e)];
          ds[static_cast<size_t>(r * width + e)] += f[static_cast<size_t>(i * m + r)] * row[static_cast<size_t>(e)];
        }
      }
      head.pull(false, i, f, df, head.at(dq, i, call.input_dim), d_matrix);
    }
    // The columns' softmax takes <db, b> over the sequence from db: that sum is <dS, S> of the column, as S = sum b_j v_j'.
    for (int r = 0; call.map == FeatureMap::softmax && r < m; ++r) {
      double sum = 0;
      for (int e = 0; e < width; ++e) sum += s[r * width + e] * ds[static_cast<size_t>(r * width + e)];
      ds[static_cast<size_t>(r * width + dims)] -= sum;
    }
    for (int32_t j = 0; j < head.rows(); ++j) {
      for (int e = 0; e < dims; ++e) {
        double sum = 0;
        for (int r = 0; r < m; ++r) sum += ds[static_cast<size_t>(r * width + e)] * g[static_cast<size_t>(j * m + r)];
        head.at(dv, j, dims)[e] = static_cast<T>(sum);
      }
      for (int r = 0; r < m; ++r) {
        df[static_cast<size_t>(r)] = ds[static_cast<size_t>(r * width + dims)];
        for (int e = 0; e < dims; ++e) df[static_cast<size_t>(r)] += ds[static_cast<size_t>(r * width + e)] * head.at(call.v, j, dims)[e];
      }
      head.pull(true, j, g, df, head.at(dk, j, call.input_dim), d_matrix);
    }
  });
}

template decltype(FeatureAttentionForward<float>::reference) FeatureAttentionForward<float>::reference;
template decltype(FeatureAttentionForward<double>::reference) FeatureAttentionForward<double>::reference;
template decltype(FeatureAttentionBackward<float>::reference) FeatureAttentionBackward<float>::reference;
template decltype(FeatureAttentionBackward<double>::reference) FeatureAttentionBackward<double>::reference;

}  // namespace tapeformer::kernels
