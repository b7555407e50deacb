// SPDX-License-Identifier: Apache-2.0
// Improved clustered attention: full with all keys, never farther from full attention than clustered, its best keys by their definition.
#include <algorithm>
#include <cmath>

#include "models/attention/dense.h"
#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

AttentionCase improved_case(const std::string& settings) {
  return attention_case(settings,
                        {"model.attention.type=improved_clustered", fmt::format("model.attention.improved_clustered={{{}}}", settings)});
}

Matrix output(const AttentionCase& c, const Tensor& x, Structures* structures = nullptr) {
  const auto n = static_cast<int32_t>(x.shape()[0]);
  return Matrix(attention_output(*make_attention(c, Dtype::f64), test_devices().front(), x, Packing({n}, {0}), structures));
}

int32_t group_of(const Structures& s, int head, int32_t i) {
  const Tensor& all = s.at("attention.groups_of_queries");
  return all.data<int32_t>()[head * all.shape()[1] + i];
}

std::vector<int32_t> best_of(const Structures& s, int head, int32_t group, int clusters) {
  const auto all = s.at("attention.best_keys").span<int32_t>();
  const auto at = static_cast<size_t>(1 + head * clusters + group);
  return {all.begin() + all[at], all.begin() + all[at + 1]};
}

// Weights of head 0 for random queries and keys, by the structures of a pass over as many rows.
std::vector<double> weights(const AttentionCase& c, const Structures& structures, int32_t n) {
  const auto attention = make_attention(c, Dtype::f64);
  models::DenseInput in{.n = n, .head = 0, .head_dim = 4, .structures = &structures};
  for (uint32_t part = 0; part < 3; ++part) in.projected.push_back(Matrix(random_tensor(Dtype::f64, {n, 4}, 20 + part)).values);
  return dynamic_cast<models::HeadAttention&>(*attention).group_of(0).dense_weights(in);
}

}  // namespace

TEST_CASE("every form of improved clustered keeps what every attention keeps", "[improved_clustered]") {
  check_attention(improved_case("clusters: 4, bits: 8, topk: 3"));
  check_attention(improved_case("clusters: 70, bits: 3, iterations: 3, topk: 40"));
}

TEST_CASE("improved clustered drops pairs of its own by the query, the others by the group", "[improved_clustered]") {
  check_dropout(improved_case("clusters: 5, bits: 16, topk: 8"), [](const Structures& s, int head, int32_t i, int32_t j) {
    const int32_t group = group_of(s, head, i);
    const std::vector<int32_t> best = best_of(s, head, group, 5);
    const bool own = std::find(best.begin(), best.end(), j) != best.end();
    return own ? std::pair("attention_dropout", i) : std::pair("cluster_dropout", group);
  });
}

TEST_CASE("with all keys of its own, improved clustered attention is full", "[improved_clustered]") {
  const AttentionCase full = attention_case("full", {"model.attention.type=full"});
  for (const int n : {1, 5, 64, 130}) {
    const Tensor x = random_tensor(Dtype::f64, {n, 8}, 3);
    CHECK(relative_error(output(improved_case("clusters: 3, topk: 200"), x), output(full, x)) < 1e-12);
    if (n > 5) CHECK(relative_error(output(improved_case("clusters: 3, topk: 2"), x), output(full, x)) > 1e-4);
  }
}

TEST_CASE("best keys have the largest scores for their group's mean query", "[improved_clustered]") {
  const int n = 50, clusters = 4;
  const AttentionCase c = improved_case("clusters: 4, bits: 16, topk: 7");
  const Tensor x = random_tensor(Dtype::f64, {n, 8}, 3);
  Structures s;
  output(c, x, &s);
  const auto attention = make_attention(c, Dtype::f64);
  nn::ModelState state;
  attention->visit(state);
  const auto projected = [&](const std::string& part) {
    for (const Parameter* p : state.parameters)
      if (p->name == "attention." + part + ".weight") {
        const Matrix w(p->value), rows(x);
        Matrix y(n, 8);
        for (int64_t i = 0; i < n; ++i)
          for (int64_t o = 0; o < 8; ++o)
            for (int64_t e = 0; e < 8; ++e) y(i, o) += w(o, e) * rows(i, e);
        return y;
      }
    FAIL("no projection " << part);
    return Matrix();
  };
  const Matrix q = projected("query"), k = projected("key");
  for (int h = 0; h < 2; ++h)
    for (int32_t g = 0; g < clusters; ++g) {
      std::vector<double> mean(4);
      int members = 0;
      for (int32_t i = 0; i < n; ++i)
        if (group_of(s, h, i) == g) {
          ++members;
          for (int d = 0; d < 4; ++d) mean[static_cast<size_t>(d)] += q(i, h * 4 + d);
        }
      std::vector<int32_t> expected;
      const auto score = [&](int32_t j) {
        double dot = 0;
        for (int d = 0; d < 4; ++d) dot += mean[static_cast<size_t>(d)] * k(j, h * 4 + d);
        return dot;
      };
      for (int32_t j = 0; j < n && members > 0; ++j) {
        int above = 0;
        for (int32_t o = 0; o < n; ++o) above += score(o) > score(j);
        if (above < 7) expected.push_back(j);
      }
      CHECK(best_of(s, h, g, clusters) == expected);
    }
}

TEST_CASE("a row is never farther from full attention than with clustered", "[improved_clustered]") {
  // The best keys follow from the queries and keys, so they are set here by hand.
  const int32_t n = 40;
  const Matrix q(random_tensor(Dtype::f64, {n, 4}, 20)), k(random_tensor(Dtype::f64, {n, 4}, 21));
  Tensor groups(Dtype::i32, {2, n});
  for (int32_t i = 0; i < 2 * n; ++i) groups.data<int32_t>()[i] = i % 5;
  std::vector<int32_t> best{10};  // two heads, five groups, six keys each
  for (int32_t list = 0; list <= 10; ++list) best.push_back(12 + 6 * list);
  for (int32_t list = 0; list < 10; ++list) {
    std::vector<std::pair<double, int32_t>> scores;
    for (int32_t j = 0; j < n; ++j) {
      double dot = 0;
      for (int32_t i = list % 5; i < n; i += 5)
        for (int d = 0; d < 4; ++d) dot -= q(i, d) * k(j, d);
      scores.emplace_back(dot, j);
    }
    std::sort(scores.begin(), scores.end());
    for (int e = 0; e < 6; ++e) best.push_back(scores[static_cast<size_t>(e)].second);
  }
  const Structures s{{"attention.groups_of_queries", groups}, {"attention.best_keys", Tensor::of(best)}};
  const std::vector<double> improved = weights(improved_case("clusters: 5, topk: 6"), s, n);
  const std::vector<double> clustered =
      weights(attention_case("clustered", {"model.attention.type=clustered", "model.attention.clustered.clusters=5"}), s, n);
  const std::vector<double> full = models::dense::softmax_weights(q.values, k.values, 4);
  for (size_t row = 0; row < full.size(); row += n) {
    double with = 0, without = 0;
    for (size_t at = row; at < row + n; ++at) {
      with += std::abs(improved[at] - full[at]);
      without += std::abs(clustered[at] - full[at]);
    }
    CHECK(with <= without + 1e-12);
  }
}

TEST_CASE("improved clustered says its pairs", "[improved_clustered]") {
  const auto attention = make_attention(improved_case("clusters: 6, topk: 4"), Dtype::f32);
  CHECK(attention->pairs(100) == 1000);
  CHECK(attention->pairs(4) == 16);
  CHECK_THROWS_AS(improved_case("topk: 0"), Error);
}
