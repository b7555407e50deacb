// SPDX-License-Identifier: Apache-2.0
// The features of one head of one sequence on the reference device, in double, and the way from their gradients to the input.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "framework/kernels/causal_feature_attention.h"
#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels::reference {

using Values = std::vector<double>;  // a matrix, row-major

// One head of one sequence.
template <class T>
class FeatureHead {
 public:
  // Causal: keys have shifts of their own, the largest exponent up to them.
  FeatureHead(const FeatureAttentionCall<T>& call, int b, int h, bool causal)
      : call_(call),
        b_(b),
        h_(h),
        causal_(causal),
        rows_(call.packing->length(b)),
        first_(call.packing->offsets()[static_cast<size_t>(b)]),
        matrix_rows_(matrix_rows(call.map, call.features)) {
    for (const bool keys : {false, true})
      for (int32_t i = 0; i < rows_; ++i) {
        double sum = 0;
        for (int c = 0; c < call.input_dim; ++c) sum += input(keys, i, c) * input(keys, i, c);
        norms_[keys].push_back(std::sqrt(sum));
      }
  }

  int32_t rows() const { return rows_; }
  int64_t index() const { return int64_t{b_} * call_.heads + h_; }
  int64_t place(int32_t i) const { return int64_t{h_} * call_.packing->rows() + first_ + i; }  // in [heads][T]
  template <class U>
  U* at(View<U> x, int32_t row, int columns) const {
    return x.row(first_ + row) + int64_t{h_} * columns;
  }

  // [rows][features] of the queries or the keys; their shifts are read or written.
  Values features(bool keys) const {
    Values exponents, f(size(call_.features));
    if (exponential()) {
      exponents = all_exponents(keys);
      shift(keys, exponents);
    }
    for (int32_t i = 0; i < rows_; ++i)
      for (int r = 0; r < call_.features; ++r) {
        double& out = f[static_cast<size_t>(i * call_.features + r)];
        out = exponential() ? exponential_feature(keys, i, r, exponents[static_cast<size_t>(i * call_.features + r)]) : feature(keys, i, r);
      }
    return f;
  }

  // dx of one row from its df; `all` is what features() gave. d_matrix may be null.
  void pull(bool keys, int32_t i, const Values& all, const Values& df, T* dx, T* d_matrix) const {
    const double* f = all.data() + int64_t{i} * call_.features;
    const int dims = call_.input_dim;
    Values d(static_cast<size_t>(dims)), du(static_cast<size_t>(matrix_rows_));
    const int half = call_.features / 2;
    double total = 0;
    for (int r = 0; r < call_.features; ++r) total += df[static_cast<size_t>(r)] * (f[r] - exponential_offset());
    for (int r = 0; r < matrix_rows_; ++r) {
      const double a = df[static_cast<size_t>(r)], b = matrix_rows_ == half ? df[static_cast<size_t>(half + r)] : 0;
      double& out = du[static_cast<size_t>(r)];
      if (call_.map == FeatureMap::positive) out = a * (f[r] - exponential_offset());
      if (call_.map == FeatureMap::hyperbolic) out = a * (f[r] - exponential_offset()) - b * (f[half + r] - exponential_offset());
      if (call_.map == FeatureMap::relu) out = product(keys, i, r) > 0 ? a : 0;
      if (call_.map == FeatureMap::trigonometric) out = a * f[half + r] - b * f[r];
      for (int c = 0; c < dims; ++c) {
        d[static_cast<size_t>(c)] += out * weight(r, c);
        if (d_matrix) reference::store(d_matrix[(int64_t{h_} * matrix_rows_ + r) * dims + c], out * scaled(keys, i, c), Write::add);
      }
    }
    for (int c = 0; c < dims; ++c) dx[c] = static_cast<T>(through_input(keys, i, c, f, df, d, total));
  }

  // What is added to exp before the sum over features.
  double exponential_offset() const {
    const bool random = call_.map == FeatureMap::positive || call_.map == FeatureMap::hyperbolic;
    return random ? call_.offset / std::sqrt(call_.features) : 0;
  }
  double key_shift(int32_t j, int r) const {
    const int own = shifts_per_key(call_.map, call_.features);
    return call_.key_shift[causal_ ? place(j) * own + r % own : index() * call_.features + r];
  }

 private:
  size_t size(int columns) const { return static_cast<size_t>(rows_) * static_cast<size_t>(columns); }
  bool exponential() const {
    return call_.map == FeatureMap::positive || call_.map == FeatureMap::hyperbolic || call_.map == FeatureMap::softmax;
  }
  double input(bool keys, int32_t i, int c) const { return at(keys ? call_.k : call_.q, i, call_.input_dim)[c]; }
  double weight(int r, int c) const { return call_.matrix[(int64_t{h_} * matrix_rows_ + r) * call_.input_dim + c]; }
  double norm(bool keys, int32_t i) const { return norms_[keys][static_cast<size_t>(i)]; }
  // y, what the matrix multiplies.
  double scaled(bool keys, int32_t i, int c) const {
    const double x = input(keys, i, c);
    if (call_.map == FeatureMap::relu) return x / std::sqrt(call_.features);
    if (call_.map == FeatureMap::trigonometric) return x / (norm(keys, i) + trigonometric_norm);
    return x / std::pow(call_.input_dim, 0.25);
  }
  double product(bool keys, int32_t i, int r) const {
    double sum = 0;
    for (int c = 0; c < call_.input_dim; ++c) sum += weight(r, c) * scaled(keys, i, c);
    return sum;
  }

  Values all_exponents(bool keys) const {
    Values u(size(call_.features));
    for (int32_t i = 0; i < rows_; ++i) {
      double half_square = 0;
      if (matrix_rows_ > 0) half_square = std::pow(norm(keys, i) / std::pow(call_.input_dim, 0.25), 2) / 2;
      for (int r = 0; r < call_.features; ++r) {
        double& out = u[static_cast<size_t>(i * call_.features + r)];
        if (call_.map == FeatureMap::softmax) out = input(keys, i, r);
        else if (r < matrix_rows_) out = product(keys, i, r) - half_square;
        else out = -product(keys, i, r - matrix_rows_) - half_square;
      }
    }
    return u;
  }

  void shift(bool keys, const Values& u) const {
    if (call_.shifts_given) return;
    const double lowest = -std::numeric_limits<double>::infinity();
    const auto log_sum = [&](auto element, int count) {
      double most = lowest, sum = 0;
      for (int n = 0; n < count; ++n) most = std::max(most, element(n));
      for (int n = 0; n < count; ++n) sum += std::exp(element(n) - most);
      return most + std::log(sum);
    };
    const int m = call_.features;
    const double most = u.empty() ? 0 : *std::ranges::max_element(u);
    const int own = shifts_per_key(call_.map, m);
    Values so_far(static_cast<size_t>(own), lowest);
    for (int32_t j = 0; keys && causal_ && j < rows_; ++j)
      for (int r = 0; r < m; ++r) {
        double& largest = so_far[static_cast<size_t>(r % own)];
        largest = std::max(largest, u[static_cast<size_t>(j * m + r)]);
        call_.key_shift[place(j) * own + r % own] = static_cast<T>(largest);
      }
    for (int r = 0; keys && !causal_ && r < m; ++r)
      call_.key_shift[index() * m + r] = static_cast<T>(
          call_.map == FeatureMap::softmax && rows_ > 0 ? log_sum([&](int n) { return u[static_cast<size_t>(n * m + r)]; }, rows_) : most);
    for (int32_t i = 0; !keys && i < rows_; ++i) {
      const auto row = u.begin() + int64_t{i} * m;
      call_.query_shift[place(i)] =
          static_cast<T>(call_.map == FeatureMap::softmax ? log_sum([&](int n) { return row[n]; }, m) : *std::max_element(row, row + m));
    }
  }

  double exponential_feature(bool keys, int32_t i, int r, double u) const {
    const double value = std::exp(u - (keys ? key_shift(i, r) : call_.query_shift[place(i)]));
    return call_.map == FeatureMap::softmax ? value : (value + call_.offset) / std::sqrt(call_.features);
  }
  double feature(bool keys, int32_t i, int r) const {
    const int half = call_.features / 2;
    switch (call_.map) {
      case FeatureMap::relu:
        return std::max(0.0, product(keys, i, r)) + call_.offset;
      case FeatureMap::trigonometric:
        return std::sqrt(1.0 / half) * (r < half ? std::sin(product(keys, i, r)) : std::cos(product(keys, i, r - half)));
      case FeatureMap::cosine:
        return std::max(0.0, input(keys, i, r % half)) * wave(i, r >= half);
      case FeatureMap::elu:
        return input(keys, i, r) >= 0 ? input(keys, i, r) + 1 : std::exp(input(keys, i, r));
      default:
        return input(keys, i, r);
    }
  }
  double wave(int32_t i, bool cosine) const {
    const double angle = std::numbers::pi * (i + 1) / (2 * call_.lengths[b_]);
    return cosine ? std::cos(angle) : std::sin(angle);
  }

  // dx_c from d = W' du, or from df where there is no matrix; total = <df, exp part of f>.
  double through_input(bool keys, int32_t i, int c, const double* f, const Values& df, const Values& d, double total) const {
    const auto at_c = static_cast<size_t>(c);
    const double x = input(keys, i, c);
    switch (call_.map) {
      case FeatureMap::positive:
      case FeatureMap::hyperbolic:
        return (d[at_c] - total * scaled(keys, i, c)) / std::pow(call_.input_dim, 0.25);
      case FeatureMap::relu:
        return d[at_c] / std::sqrt(call_.features);
      case FeatureMap::trigonometric: {
        const double length = norm(keys, i), divisor = length + trigonometric_norm;
        double dot = 0;
        for (int n = 0; n < call_.input_dim; ++n) dot += input(keys, i, n) * d[static_cast<size_t>(n)];
        return (d[at_c] - (length > 0 ? x * dot / (length * divisor) : 0)) / divisor;
      }
      case FeatureMap::cosine:
        return x > 0 ? df[at_c] * wave(i, false) + df[static_cast<size_t>(call_.input_dim + c)] * wave(i, true) : 0;
      case FeatureMap::softmax:
        return f[c] * (keys ? df[at_c] : df[at_c] - total);
      case FeatureMap::elu:
        return df[at_c] * (x >= 0 ? 1 : f[c]);
      default:
        return df[at_c];
    }
  }

  const FeatureAttentionCall<T>& call_;
  int b_, h_;
  bool causal_;
  int32_t rows_;
  int64_t first_;
  int matrix_rows_;
  Values norms_[2];  // of the queries and the keys
};

// What o is divided by, from z . f as it is kept (with epsilon where that is added), and how it changes with z . f: 1 or -1, 0 where a
// clamp acts or nothing is divided.
struct Divisor {
  double by, slope;
};
template <class T>
Divisor divisor_of(const FeatureAttentionCall<T>& call, double kept) {
  if (call.denominator == Denominator::none) return {1, 0};
  if (call.denominator == Denominator::add) return {kept, 1};
  if (std::abs(kept) <= call.epsilon) return {call.epsilon, 0};
  return {std::abs(kept), kept < 0 ? -1.0 : 1.0};
}

template <class T, class Body>
void for_each_head(const FeatureAttentionCall<T>& call, bool causal, Body body) {
  for (int b = 0; b < call.packing->sequences(); ++b)
    for (int h = 0; h < call.heads; ++h) body(FeatureHead<T>(call, b, h, causal));
}

}  // namespace tapeformer::kernels::reference
