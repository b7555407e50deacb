// SPDX-License-Identifier: Apache-2.0
// Softmax attention on the reference device: the pairs of the plan's tile lists, with a dense softmax for each row.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "framework/kernels/attention.h"
#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels {
namespace {

constexpr int32_t tile = TilePlan::tile;
constexpr double infinity = std::numeric_limits<double>::infinity();

// Calls visit(j) for the keys j of query i, places counted in the plan.
template <class Visit>
void for_each_key(const TilePlan& plan, int32_t i, Visit visit) {
  const auto t = static_cast<size_t>(i / tile);
  for (int32_t e = plan.by_query.begin[t]; e < plan.by_query.begin[t + 1]; ++e) {
    const TileEntry& entry = plan.by_query.entries[static_cast<size_t>(e)];
    for (int32_t j = entry.tile * tile; j < std::min(plan.keys, (entry.tile + 1) * tile); ++j)
      if (plan.allows(entry, i, j)) visit(j);
  }
}
// Calls visit(i) for the queries i of key j.
template <class Visit>
void for_each_query(const TilePlan& plan, int32_t j, Visit visit) {
  const auto t = static_cast<size_t>(j / tile);
  for (int32_t e = plan.by_key.begin[t]; e < plan.by_key.begin[t + 1]; ++e) {
    const TileEntry& entry = plan.by_key.entries[static_cast<size_t>(e)];
    for (int32_t i = entry.tile * tile; i < std::min(plan.queries, (entry.tile + 1) * tile); ++i)
      if (plan.allows(entry, i, j)) visit(i);
  }
}

// One head of one sequence; queries and keys are named by their places in the plan.
template <class T>
struct Head {
  const AttentionCall<T>& call;
  const TilePlan& plan;
  int64_t first_query, first_key;  // rows of the batch where the sequence begins
  int64_t first_column;
  uint32_t sample;
  uint64_t key;

  Head(const AttentionCall<T>& c, int b, int h)
      : call(c),
        plan(c.plan(b, h)),
        first_query(c.queries->offsets()[static_cast<size_t>(b)]),
        first_key(c.keys->offsets()[static_cast<size_t>(b)]),
        first_column(int64_t{h} * c.head_dim),
        sample(c.queries->sample_ids()[static_cast<size_t>(b)]),
        key(c.dropout.on() ? c.dropout_keys[h] : 0) {}

  template <class U>
  U* query(View<U> x, int32_t i) const {
    return x.row(first_query + plan.query_row(i)) + first_column;
  }
  template <class U>
  U* key_of(View<U> x, int32_t j) const {
    return x.row(first_key + plan.key_row(j)) + first_column;
  }
  double dot(const T* x, const T* y) const {
    double sum = 0;
    for (int d = 0; d < call.head_dim; ++d) sum += static_cast<double>(x[d]) * y[d];
    return sum;
  }
  double score(int32_t i, int32_t j) const { return call.scale * dot(query(call.q, i), key_of(call.k, j)); }
  double factor(int32_t i, int32_t j) const {
    return reference::dropout_factor(call.dropout, key, sample, plan.query_place(i), plan.key_place(j));
  }
  std::vector<double> zeros() const { return std::vector<double>(static_cast<size_t>(call.head_dim)); }
  void add(std::vector<double>& sums, double weight, const T* x) const {
    for (int d = 0; d < call.head_dim; ++d) sums[static_cast<size_t>(d)] += weight * static_cast<double>(x[d]);
  }
  void add_to(T* x, const std::vector<double>& sums) const {
    for (int d = 0; d < call.head_dim; ++d) reference::store(x[d], sums[static_cast<size_t>(d)], Write::add);
  }
};

// Merges the softmax over the plan's keys of query i into its row of o and lse.
template <class T>
void forward_row(const Head<T>& head, int32_t i, View<T> o, T& lse) {
  std::vector<double> sums = head.zeros();
  double largest = -infinity, total = 0;
  const auto raise = [&](double x) { largest = std::isnan(x) || x > largest ? x : largest; };
  for_each_key(head.plan, i, [&](int32_t j) { raise(head.score(i, j)); });
  if (largest == -infinity) return;
  const bool others = lse != static_cast<T>(infinity);
  if (others) raise(static_cast<double>(lse));
  for_each_key(head.plan, i, [&](int32_t j) { total += std::exp(head.score(i, j) - largest); });
  if (others) total += std::exp(static_cast<double>(lse) - largest);
  if (others) head.add(sums, std::exp(static_cast<double>(lse) - largest) / total, head.query(View<const T>(o), i));
  for_each_key(head.plan, i, [&](int32_t j) {
    head.add(sums, std::exp(head.score(i, j) - largest) / total * head.factor(i, j), head.key_of(head.call.v, j));
  });
  lse = static_cast<T>(largest + std::log(total));
  T* row = head.query(o, i);
  for (int d = 0; d < head.call.head_dim; ++d) row[d] = static_cast<T>(sums[static_cast<size_t>(d)]);
}

// Calls body(head, lse) for each sequence and head, with the head's part of lse.
template <class T, class L, class Body>
void for_each_head(const AttentionCall<T>& call, L* lse, Body body) {
  for (int b = 0; b < call.queries->sequences(); ++b)
    for (int h = 0; h < call.heads; ++h) {
      const Head<T> head(call, b, h);
      body(head, lse + int64_t{h} * call.queries->rows() + head.first_query);
    }
}

template <class T>
void clear(View<T> x) {
  for (int64_t r = 0; r < x.rows; ++r) std::fill(x.row(r), x.row(r) + x.columns, T{0});
}

}  // namespace

template <class T>
void AttentionForward<T>::reference(const Execution&, const AttentionCall<T>& call, View<T> o, T* lse, Write write) {
  if (write == Write::overwrite) {
    clear(o);
    std::fill(lse, lse + int64_t{call.heads} * call.queries->rows(), static_cast<T>(infinity));
  }
  for_each_head(call, lse, [&](const Head<T>& head, T* head_lse) {
    for (int32_t i = 0; i < head.plan.queries; ++i) forward_row(head, i, o, head_lse[head.plan.query_row(i)]);
  });
}

template <class T>
void AttentionBackward<T>::reference(const Execution&, const AttentionCall<T>& call, View<const T> o, const T* lse, View<const T> d_o,
                                     View<T> dq, View<T> dk, View<T> dv, Write write) {
  if (write == Write::overwrite)
    for (const View<T>& x : {dq, dk, dv}) clear(x);
  for_each_head(call, lse, [&](const Head<T>& head, const T* head_lse) {
    std::vector<double> delta(static_cast<size_t>(head.plan.queries));
    for (int32_t i = 0; i < head.plan.queries; ++i) delta[static_cast<size_t>(i)] = head.dot(head.query(d_o, i), head.query(o, i));
    const auto probability = [&](int32_t i, int32_t j) {
      return std::exp(head.score(i, j) - static_cast<double>(head_lse[head.plan.query_row(i)]));
    };
    const auto score_gradient = [&](int32_t i, int32_t j) {
      return probability(i, j) * (head.dot(head.query(d_o, i), head.key_of(call.v, j)) * head.factor(i, j) - delta[static_cast<size_t>(i)]);
    };
    for (int32_t i = 0; i < head.plan.queries; ++i) {
      std::vector<double> sums = head.zeros();
      for_each_key(head.plan, i, [&](int32_t j) { head.add(sums, call.scale * score_gradient(i, j), head.key_of(call.k, j)); });
      head.add_to(head.query(dq, i), sums);
    }
    for (int32_t j = 0; j < head.plan.keys; ++j) {
      std::vector<double> key_sums = head.zeros(), value_sums = head.zeros();
      for_each_query(head.plan, j, [&](int32_t i) {
        head.add(key_sums, call.scale * score_gradient(i, j), head.query(call.q, i));
        head.add(value_sums, probability(i, j) * head.factor(i, j), head.query(d_o, i));
      });
      head.add_to(head.key_of(dk, j), key_sums);
      head.add_to(head.key_of(dv, j), value_sums);
    }
  });
}

template decltype(AttentionForward<float>::reference) AttentionForward<float>::reference;
template decltype(AttentionForward<double>::reference) AttentionForward<double>::reference;
template decltype(AttentionBackward<float>::reference) AttentionBackward<float>::reference;
template decltype(AttentionBackward<double>::reference) AttentionBackward<double>::reference;

}  // namespace tapeformer::kernels
