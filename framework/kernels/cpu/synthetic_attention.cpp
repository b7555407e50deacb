// SPDX-License-Identifier: Apache-2.0
// Synthetic attention on the cpu device: the scores of a few query rows for all keys are made in cache, forward and again in the backward.
#include "framework/kernels/synthetic_attention.h"

#include <algorithm>
#include <limits>

#include "framework/core/parallel.h"
#include "framework/kernels/cpu/simd/product.h"
#include "framework/kernels/cpu/simd/row_passes.h"
#include "framework/kernels/cpu/simd/softmax.h"

namespace tapeformer::kernels {
namespace {

constexpr int64_t strip = 48;  // query rows

// Some query rows of one head of one sequence.
struct Strip {
  const SyntheticCall<float>& call;
  int h;
  int64_t first_row, n;      // of the sequence; the keys that some row of the strip sees
  int64_t row, count;        // of the strip, counted in the sequence

  int rows() const { return static_cast<int>(count); }
  int keys() const { return static_cast<int>(n); }
  simd::ConstRows all(const View<const float>& x) const { return {x.row(first_row) + int64_t{h} * call.head_dim, x.stride}; }
  simd::ConstRows own(const View<const float>& x) const { return {x.row(first_row + row) + int64_t{h} * call.head_dim, x.stride}; }
  simd::Rows all(const View<float>& x) const { return {x.row(first_row) + int64_t{h} * call.head_dim, x.stride}; }
  simd::Rows own(const View<float>& x) const { return {x.row(first_row + row) + int64_t{h} * call.head_dim, x.stride}; }
};

// Arrays of a strip [strip, keys] and the scratch of products, in one piece of scratch memory.
struct Work {
  simd::Rows scores, p, dropped;
  float* product;

  static int64_t stride(int64_t keys) { return (keys + 15) / 16 * 16 + simd::row_padding; }
  static size_t floats(const SyntheticCall<float>& call, int64_t keys) {
    return static_cast<size_t>(3 * strip * stride(keys)) + simd::product_scratch(static_cast<int>(std::max(keys, strip)),
                                                                                  static_cast<int>(std::max<int64_t>(keys, call.head_dim)));
  }
  Work(float* memory, int64_t keys) {
    const int64_t s = stride(keys);
    scores = {memory, s};
    p = {memory + strip * s, s};
    dropped = {memory + 2 * strip * s, s};
    product = memory + 3 * strip * s;
  }
};

simd::ConstRows read(const simd::Rows& x) { return {x.data, x.stride}; }

void multiply(const Work& w, int m, int n, int k, simd::ConstRows a, bool ta, simd::ConstRows b, bool tb, simd::Rows c, bool add,
              double alpha = 1) {
  simd::Product p;
  p.M = m;
  p.N = n;
  p.K = k;
  p.a = a;
  p.b = b;
  p.transpose_a = ta;
  p.transpose_b = tb;
  p.alpha = static_cast<float>(alpha);
  p.c = c;
  p.add = add;
  simd::product(p, w.product);
}

void make_scores(const Strip& s, const Work& w) {
  const SyntheticCall<float>& call = s.call;
  for (int64_t r = 0; r < s.count; ++r) {
    float* const to = w.scores.row(r);
    if (call.table.data) std::copy_n(call.table.row(s.h * call.most + s.row + r), s.n, to);
    else std::fill_n(to, s.n, 0.f);
    if (!call.first.data) continue;
    const float* inner = call.first.row(s.first_row + s.row + r) + s.h * call.inner;
    const float* outer = call.second.row(s.first_row + s.row + r) + s.h * call.outer;
    for (int64_t from = 0; from < s.n; from += call.inner, ++outer)
      for (int64_t j = 0; j < std::min(call.inner, s.n - from); ++j) to[from + j] += *outer * inner[j];
  }
  if (call.q.data)
    multiply(w, s.rows(), s.keys(), call.head_dim, s.own(call.q), false, s.all(call.k), true, w.scores, true, call.scale);
  for (int64_t r = 0; call.causal && r < s.count; ++r)
    std::fill(w.scores.row(r) + s.row + r + 1, w.scores.row(r) + s.n, -std::numeric_limits<float>::infinity());
}

// x times the dropout factors of the strip; y may be x.
void drop(const Strip& s, const simd::Rows& x, const simd::Rows& y) {
  const DropoutDraw& d = s.call.dropout;
  simd::DropoutRows rows;
  rows.key = s.call.dropout_keys[s.h];
  rows.threshold = d.threshold;
  rows.scale = static_cast<float>(d.scale);
  rows.step = d.step;
  rows.positions = s.call.packing->positions().data() + s.first_row + s.row;
  rows.samples = s.call.packing->row_samples().data() + s.first_row + s.row;
  simd::dropout_rows(rows, read(x), s.keys(), false, 0, s.count, y);
}

// The probabilities in w.p, and with dropout in the returned array.
simd::Rows probabilities(const Strip& s, const Work& w) {
  make_scores(s, w);
  simd::softmax(s.rows(), s.keys(), read(w.scores), w.p);
  if (!s.call.dropout.on()) return w.p;
  drop(s, w.p, w.dropped);
  return w.dropped;
}

// dS of the strip, in w.scores, to the table and to the two short rows.
void hand_over(const Strip& s, const Work& w, const SyntheticGradients<float>& to) {
  const SyntheticCall<float>& call = s.call;
  for (int64_t r = 0; r < s.count; ++r) {
    const float* ds = w.scores.row(r);
    if (to.table.data) {
      float* const sum = to.table.row(s.h * call.most + s.row + r);
      for (int64_t j = 0; j < s.n; ++j) sum[j] += ds[j];
    }
    if (!call.first.data) continue;
    const int64_t row = s.first_row + s.row + r;
    const float *inner = call.first.row(row) + s.h * call.inner, *outer = call.second.row(row) + s.h * call.outer;
    for (int64_t from = 0, c = 0; from < s.n; from += call.inner, ++c) {
      const int64_t width = std::min(call.inner, s.n - from);
      if (to.first.data)
        for (int64_t j = 0; j < width; ++j) to.first.row(row)[s.h * call.inner + j] += outer[c] * ds[from + j];
      float sum = 0;
      for (int64_t j = 0; j < width; ++j) sum += inner[j] * ds[from + j];
      if (to.second.data) to.second.row(row)[s.h * call.outer + c] += sum;
    }
  }
}

void backward(const Strip& s, const Work& w, const View<const float>& d_o, const SyntheticGradients<float>& to) {
  const SyntheticCall<float>& call = s.call;
  const simd::Rows used = probabilities(s, w);
  if (to.v.data) multiply(w, s.keys(), call.head_dim, s.rows(), read(used), true, s.own(d_o), false, s.all(to.v), true);
  // w.dropped holds dP from here on.
  multiply(w, s.rows(), s.keys(), call.head_dim, s.own(d_o), false, s.all(call.v), true, w.dropped, false);
  if (call.dropout.on()) drop(s, w.dropped, w.dropped);
  simd::softmax_backward(s.rows(), s.keys(), read(w.dropped), read(w.p), false, w.scores);
  if (to.q.data) multiply(w, s.rows(), call.head_dim, s.keys(), read(w.scores), false, s.all(call.k), false, s.own(to.q), true, call.scale);
  if (to.k.data) multiply(w, s.keys(), call.head_dim, s.rows(), read(w.scores), true, s.own(call.q), false, s.all(to.k), true, call.scale);
  hand_over(s, w, to);
}

struct Task {
  int b, h;
  int64_t row, end;
};

Strip strip_of(const SyntheticCall<float>& call, int b, int h, int64_t row) {
  const int64_t n = call.packing->length(b), count = std::min(strip, n - row);
  return {call, h, call.packing->offsets()[static_cast<size_t>(b)], call.causal ? row + count : n, row, count};
}

}  // namespace

template <>
void SyntheticForward<float>::cpu(const Execution& on, const SyntheticCall<float>& call, View<float> o) {
  std::vector<Task> tasks;
  for (int b = 0; b < call.packing->sequences(); ++b)
    for (int h = 0; h < call.heads; ++h)
      for (int64_t row = 0; row < call.packing->length(b); row += strip) tasks.push_back({b, h, row, row + strip});
  on.threads->run(static_cast<int64_t>(tasks.size()), [&](int64_t i) {
    const Task& task = tasks[static_cast<size_t>(i)];
    const Strip s = strip_of(call, task.b, task.h, task.row);
    const Work w(thread_scratch(Work::floats(call, s.n)), s.n);
    const simd::Rows p = probabilities(s, w);
    multiply(w, s.rows(), call.head_dim, s.keys(), read(p), false, s.all(call.v), false, s.own(o), false);
  });
}

// A task owns what it adds to: a head of one sequence, or of all sequences where they share a table.
template <>
void SyntheticBackward<float>::cpu(const Execution& on, const SyntheticCall<float>& call, View<const float> d_o,
                                   const SyntheticGradients<float>& to) {
  const int sequences = call.packing->sequences(), runs = to.table.data ? 1 : sequences;
  on.threads->run(int64_t{runs} * call.heads, [&](int64_t i) {
    const int h = static_cast<int>(i % call.heads), first = to.table.data ? 0 : static_cast<int>(i / call.heads);
    for (int b = first; b < (to.table.data ? sequences : first + 1); ++b)
      for (int64_t row = 0; row < call.packing->length(b); row += strip) {
        const Strip s = strip_of(call, b, h, row);
        backward(s, Work(thread_scratch(Work::floats(call, s.n)), s.n), d_o, to);
      }
  });
}

}  // namespace tapeformer::kernels
