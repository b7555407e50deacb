// SPDX-License-Identifier: Apache-2.0
// Linear attention on the reference device.
#include "framework/kernels/linear_attention.h"

#include <cmath>
#include <vector>

#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels {
namespace {

double feature(double x) { return x >= 0 ? x + 1 : std::exp(x); }
double feature_slope(double x) { return x >= 0 ? 1 : std::exp(x); }

// A row of one head: its head_dim values.
template <class T>
struct HeadView {
  View<T> x;
  int64_t first_row, first_column;
  T& operator()(int32_t row, int d) const { return x.row(first_row + row)[first_column + d]; }
};

// Calls body(slice, rows, index of the first row in [heads][T], index in [B][heads]) where slice(x) is the head's part of a matrix.
template <class T, class Body>
void for_each_head(const LinearAttentionCall<T>& call, Body body) {
  const Packing& packing = *call.packing;
  for (int b = 0; b < packing.sequences(); ++b)
    for (int h = 0; h < call.heads; ++h) {
      const int64_t first_row = packing.offsets()[static_cast<size_t>(b)], first_column = int64_t{h} * call.head_dim;
      const auto slice = [=]<class U>(View<U> x) { return HeadView<U>{x, first_row, first_column}; };
      body(slice, packing.length(b), int64_t{h} * packing.rows() + first_row, int64_t{b} * call.heads + h);
    }
}

// state[d][e] of one head: S, and z in the last column.
template <class T>
struct State {
  T* data;
  int head_dim;
  T& operator()(int d, int e) const { return data[d * (head_dim + 1) + e]; }
  T& z(int d) const { return (*this)(d, head_dim); }
};

}  // namespace

template <class T>
void LinearAttentionForward<T>::reference(const Execution&, const LinearAttentionCall<T>& call, View<T> o, T* state, T* denominator) {
  const int dims = call.head_dim;
  const int64_t size = int64_t{dims} * (dims + 1);
  for_each_head(call, [&](auto slice, int32_t rows, int64_t first, int64_t index) {
    const auto q = slice(call.q), k = slice(call.k), v = slice(call.v);
    const auto out = slice(o);
    std::vector<double> sums(static_cast<size_t>(size));
    const State<double> s{sums.data(), dims};
    for (int32_t j = 0; j < rows; ++j)
      for (int d = 0; d < dims; ++d) {
        const double f = feature(k(j, d));
        for (int e = 0; e < dims; ++e) s(d, e) += f * v(j, e);
        s.z(d) += f;
      }
    for (int32_t i = 0; i < rows; ++i) {
      double den = call.epsilon;
      for (int d = 0; d < dims; ++d) den += feature(q(i, d)) * s.z(d);
      for (int e = 0; e < dims; ++e) {
        double numerator = 0;
        for (int d = 0; d < dims; ++d) numerator += feature(q(i, d)) * s(d, e);
        out(i, e) = static_cast<T>(numerator / den);
      }
      denominator[first + i] = static_cast<T>(den);
    }
    for (int64_t n = 0; n < size; ++n) state[index * size + n] = static_cast<T>(sums[static_cast<size_t>(n)]);
  });
}

template <class T>
void LinearAttentionBackward<T>::reference(const Execution&, const LinearAttentionCall<T>& call, View<const T> o, const T* state,
                                           const T* denominator, View<const T> d_o, View<T> dq, View<T> dk, View<T> dv) {
  const int dims = call.head_dim;
  const int64_t size = int64_t{dims} * (dims + 1);
  for_each_head(call, [&](auto slice, int32_t rows, int64_t first, int64_t index) {
    const auto q = slice(call.q), k = slice(call.k), v = slice(call.v), out = slice(o), dout = slice(d_o);
    const auto d_q = slice(dq), d_k = slice(dk), d_v = slice(dv);
    const State<const T> s{state + index * size, dims};
    std::vector<double> sums(static_cast<size_t>(size));
    const State<double> ds{sums.data(), dims};
    for (int32_t i = 0; i < rows; ++i) {
      const double den = denominator[first + i];
      double dden = 0;  // e_i
      for (int e = 0; e < dims; ++e) dden -= static_cast<double>(dout(i, e)) * out(i, e) / den;
      for (int d = 0; d < dims; ++d) {
        double sum = dden * s.z(d);
        for (int e = 0; e < dims; ++e) {
          sum += s(d, e) * dout(i, e) / den;
          ds(d, e) += feature(q(i, d)) * dout(i, e) / den;
        }
        ds.z(d) += dden * feature(q(i, d));
        d_q(i, d) = static_cast<T>(sum * feature_slope(q(i, d)));
      }
    }
    for (int32_t j = 0; j < rows; ++j)
      for (int d = 0; d < dims; ++d) {
        double key_sum = ds.z(d), value_sum = 0;
        for (int e = 0; e < dims; ++e) {
          key_sum += ds(d, e) * v(j, e);
          value_sum += ds(e, d) * feature(k(j, e));
        }
        d_k(j, d) = static_cast<T>(key_sum * feature_slope(k(j, d)));
        d_v(j, d) = static_cast<T>(value_sum);
      }
  });
}

template decltype(LinearAttentionForward<float>::reference) LinearAttentionForward<float>::reference;
template decltype(LinearAttentionForward<double>::reference) LinearAttentionForward<double>::reference;
template decltype(LinearAttentionBackward<float>::reference) LinearAttentionBackward<float>::reference;
template decltype(LinearAttentionBackward<double>::reference) LinearAttentionBackward<double>::reference;

}  // namespace tapeformer::kernels
