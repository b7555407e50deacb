// SPDX-License-Identifier: Apache-2.0
// Softmax attention on the reference device: the pairs of the plan's tile lists, with a dense softmax for each row.
#include "framework/kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "framework/kernels/reference/common.h"

namespace tapeformer::kernels {
namespace {

constexpr int32_t tile = TilePlan::tile;

// Calls visit(j) for the rows j of the other side that the list's row i meets in the plan; `pair` puts the two into (query, key).
template <class Pair, class Visit>
void for_each_partner(const TilePlan& plan, const TileList& list, int32_t i, int32_t partners, Pair pair, Visit visit) {
  const auto t = static_cast<size_t>(i / tile);
  for (int32_t e = list.begin[t]; e < list.begin[t + 1]; ++e) {
    const TileEntry entry = list.entries[static_cast<size_t>(e)];
    for (int32_t j = entry.tile * tile; j < std::min(partners, (entry.tile + 1) * tile); ++j) {
      const auto [query, key] = pair(i, j);
      if (entry.predicate == Predicate::all ||
          (plan.first_key[static_cast<size_t>(query)] <= key && key < plan.end_key[static_cast<size_t>(query)]))
        visit(j);
    }
  }
}
struct Place {
  int32_t query, key;
};
template <class Visit>
void for_each_key(const TilePlan& plan, int32_t query, Visit visit) {
  for_each_partner(
      plan, plan.by_query, query, plan.keys,
      [](int32_t i, int32_t j) {
        return Place{i, j};
      },
      visit);
}
template <class Visit>
void for_each_query(const TilePlan& plan, int32_t key, Visit visit) {
  for_each_partner(
      plan, plan.by_key, key, plan.queries,
      [](int32_t i, int32_t j) {
        return Place{j, i};
      },
      visit);
}

// One head of one sequence, with places counted from the sequence's row 0.
template <class T>
struct Head {
  const AttentionCall<T>& call;
  const TilePlan& plan;
  int64_t first_row;
  int64_t first_column;
  uint32_t sample;
  uint64_t key;

  Head(const AttentionCall<T>& c, int b, int h)
      : call(c),
        plan(*c.plans[b]),
        first_row(c.packing->offsets()[static_cast<size_t>(b)]),
        first_column(int64_t{h} * c.head_dim),
        sample(c.packing->sample_ids()[static_cast<size_t>(b)]),
        key(c.dropout.on() ? c.dropout_keys[h] : 0) {}

  template <class U>
  U* row(View<U> x, int32_t place) const {
    return x.row(first_row + place) + first_column;
  }
  double dot(View<const T> x, int32_t i, View<const T> y, int32_t j) const {
    double sum = 0;
    for (int d = 0; d < call.head_dim; ++d) sum += static_cast<double>(row(x, i)[d]) * row(y, j)[d];
    return sum;
  }
  double score(int32_t i, int32_t j) const { return call.scale * dot(call.q, i, call.k, j); }
  double factor(int32_t i, int32_t j) const { return reference::dropout_factor(call.dropout, key, sample, i, j); }
  void write(View<T> x, int32_t place, const std::vector<double>& sums) const {
    for (int d = 0; d < call.head_dim; ++d) row(x, place)[d] = static_cast<T>(sums[static_cast<size_t>(d)]);
  }
  void add(std::vector<double>& sums, double weight, View<const T> x, int32_t place) const {
    for (int d = 0; d < call.head_dim; ++d) sums[static_cast<size_t>(d)] += weight * row(x, place)[d];
  }
};

template <class T>
void forward_row(const Head<T>& head, int32_t i, View<T> o, T& lse) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> sums(static_cast<size_t>(head.call.head_dim));
  double largest = -infinity, total = 0;
  for_each_key(head.plan, i, [&](int32_t j) { largest = std::max(largest, head.score(i, j)); });
  for_each_key(head.plan, i, [&](int32_t j) { total += std::exp(head.score(i, j) - largest); });
  lse = static_cast<T>(total > 0 ? largest + std::log(total) : infinity);
  if (total > 0)
    for_each_key(head.plan, i,
                 [&](int32_t j) { head.add(sums, std::exp(head.score(i, j) - largest) / total * head.factor(i, j), head.call.v, j); });
  head.write(o, i, sums);
}

// Calls body(head, rows, lse) for each sequence and head, with the head's part of lse.
template <class T, class L, class Body>
void for_each_head(const AttentionCall<T>& call, L* lse, Body body) {
  for (int b = 0; b < call.packing->sequences(); ++b)
    for (int h = 0; h < call.heads; ++h) {
      const Head<T> head(call, b, h);
      body(head, call.packing->length(b), lse + int64_t{h} * call.packing->rows() + head.first_row);
    }
}

}  // namespace

template <class T>
void AttentionForward<T>::reference(const Execution&, const AttentionCall<T>& call, View<T> o, T* lse) {
  for_each_head(call, lse, [&](const Head<T>& head, int32_t rows, T* head_lse) {
    for (int32_t i = 0; i < rows; ++i) forward_row(head, i, o, head_lse[i]);
  });
}

template <class T>
void AttentionBackward<T>::reference(const Execution&, const AttentionCall<T>& call, View<const T> o, const T* lse, View<const T> d_o,
                                     View<T> dq, View<T> dk, View<T> dv) {
  for_each_head(call, lse, [&](const Head<T>& head, int32_t rows, const T* head_lse) {
    std::vector<double> delta(static_cast<size_t>(rows));
    for (int32_t i = 0; i < rows; ++i) delta[static_cast<size_t>(i)] = head.dot(d_o, i, o, i);
    const auto probability = [&](int32_t i, int32_t j) { return std::exp(head.score(i, j) - head_lse[i]); };
    const auto score_gradient = [&](int32_t i, int32_t j) {
      return probability(i, j) * (head.dot(d_o, i, call.v, j) * head.factor(i, j) - delta[static_cast<size_t>(i)]);
    };
    for (int32_t i = 0; i < rows; ++i) {
      std::vector<double> sums(static_cast<size_t>(call.head_dim));
      for_each_key(head.plan, i, [&](int32_t j) { head.add(sums, call.scale * score_gradient(i, j), call.k, j); });
      head.write(dq, i, sums);
    }
    for (int32_t j = 0; j < rows; ++j) {
      std::vector<double> key_sums(static_cast<size_t>(call.head_dim)), value_sums(key_sums);
      for_each_query(head.plan, j, [&](int32_t i) {
        head.add(key_sums, call.scale * score_gradient(i, j), call.q, i);
        head.add(value_sums, probability(i, j) * head.factor(i, j), d_o, i);
      });
      head.write(dk, j, key_sums);
      head.write(dv, j, value_sums);
    }
  });
}

template decltype(AttentionForward<float>::reference) AttentionForward<float>::reference;
template decltype(AttentionForward<double>::reference) AttentionForward<double>::reference;
template decltype(AttentionBackward<float>::reference) AttentionBackward<float>::reference;
template decltype(AttentionBackward<double>::reference) AttentionBackward<double>::reference;

}  // namespace tapeformer::kernels
