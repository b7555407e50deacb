// SPDX-License-Identifier: Apache-2.0
#include "tests/framework/ops/attention_pairs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "framework/core/random.h"
#include "tests/support/plans.h"

namespace tapeformer::test {
namespace {

using Generator = std::mt19937;

bool chance(Generator& generator, double p) { return generator() < p * 4294967296.0; }

Pairs random_pairs(const PairsForm& f, int queries, int keys, Generator& generator) {
  Pairs out{queries, keys, std::vector<int>(static_cast<size_t>(queries * keys), -1)};
  for (int i = 0; i < queries; ++i)
    for (int j = 0; j < keys; ++j)
      // Every seventh query has no key, and a key of seven no query; the first rows see every key of their part.
      if (i % 7 != 5 && j % 7 != 4 && (i < 2 || chance(generator, f.density)))
        out.at(i, j) = static_cast<int>(generator() % static_cast<uint32_t>(f.parts));
  return out;
}

// The rows for which used(row), and some others, in any order.
template <class Used>
std::vector<int32_t> rows_of(int count, Used used, Generator& generator) {
  std::vector<int32_t> out;
  for (int r = 0; r < count; ++r)
    if (used(r) || chance(generator, 0.2)) out.push_back(r);
  std::shuffle(out.begin(), out.end(), generator);
  return out;
}

PlanPointer plan_of(const PairsForm& f, const Pairs& pairs, int part, Generator& generator) {
  std::vector<int32_t> query_rows(static_cast<size_t>(pairs.queries)), key_rows(static_cast<size_t>(pairs.keys));
  std::iota(query_rows.begin(), query_rows.end(), 0);
  std::iota(key_rows.begin(), key_rows.end(), 0);
  if (f.listed) {
    const auto row_used = [&](int i) {
      for (int j = 0; j < pairs.keys; ++j)
        if (pairs.at(i, j) == part) return true;
      return false;
    };
    const auto key_used = [&](int j) {
      for (int i = 0; i < pairs.queries; ++i)
        if (pairs.at(i, j) == part) return true;
      return false;
    };
    query_rows = rows_of(pairs.queries, row_used, generator);
    key_rows = rows_of(pairs.keys, key_used, generator);
  }
  const auto allowed = [&](int32_t i, int32_t j) {
    return pairs.at(query_rows[static_cast<size_t>(i)], key_rows[static_cast<size_t>(j)]) == part;
  };
  const auto queries = static_cast<int32_t>(query_rows.size()), keys = static_cast<int32_t>(key_rows.size());
  TilePlan plan = plan_of_pairs(queries, keys, allowed);
  if (f.listed) {
    plan.query_rows = query_rows;
    plan.key_rows = key_rows;
  }
  return std::make_shared<const TilePlan>(std::move(plan));
}

std::vector<uint32_t> samples(size_t n) {
  std::vector<uint32_t> out;
  for (size_t i = 0; i < n; ++i) out.push_back(static_cast<uint32_t>(7 * i + 2));
  return out;
}

}  // namespace

AttentionPairs::AttentionPairs(const PairsForm& f)
    : form(f), queries(f.queries, samples(f.queries.size())), keys(f.keys, samples(f.keys.size())) {
  Generator generator(f.seed);
  for (size_t b = 0; b < f.queries.size(); ++b)
    for (int h = 0; h < f.heads; ++h) pairs.push_back(random_pairs(f, f.queries[b], f.keys[b], generator));
  for (int p = 0; p < f.parts; ++p) {
    parts.emplace_back();
    for (int b = 0; b < queries.sequences(); ++b)
      for (int h = 0; h < (f.for_each_head ? f.heads : 1); ++h) parts.back().push_back(plan_of(f, of(b, h), p, generator));
  }
}

Matrix AttentionPairs::oracle(const Matrix& q, const Matrix& k, const Matrix& v) const {
  Matrix o(q.rows, q.columns);
  for (int b = 0; b < queries.sequences(); ++b)
    for (int h = 0; h < form.heads; ++h) {
      const Pairs& allowed = of(b, h);
      const int row = queries.offsets()[size_t(b)], key_row = keys.offsets()[size_t(b)], column = h * form.head_dim;
      const uint64_t key = random_key(7, "pair_dropout", "layer", 3 + h);
      for (int i = 0; i < allowed.queries; ++i) {
        std::vector<double> weight(static_cast<size_t>(allowed.keys));
        double sum = 0;
        for (int j = 0; j < allowed.keys; ++j) {
          if (allowed.at(i, j) < 0) continue;
          double dot = 0;
          for (int d = 0; d < form.head_dim; ++d) dot += q(row + i, column + d) * k(key_row + j, column + d);
          sum += weight[size_t(j)] = std::exp(0.3 * dot);
        }
        for (int j = 0; j < allowed.keys; ++j) {
          if (weight[size_t(j)] == 0) continue;
          double factor = 1;
          if (form.dropout > 0) {
            const uint32_t word = philox({uint32_t(j / 4), uint32_t(i), queries.sample_ids()[size_t(b)], 3}, key)[size_t(j % 4)];
            factor = word < std::round(form.dropout * 4294967296.0) ? 0 : 1 / (1 - form.dropout);
          }
          for (int d = 0; d < form.head_dim; ++d) o(row + i, column + d) += factor * weight[size_t(j)] / sum * v(key_row + j, column + d);
        }
      }
    }
  return o;
}

ops::AttentionSettings AttentionPairs::settings() const {
  return {.heads = form.heads, .scale = 0.3, .dropout = form.dropout, .name = "layer", .first_head = 3, .purpose = "pair_dropout"};
}

}  // namespace tapeformer::test
