// SPDX-License-Identifier: Apache-2.0
// Routing attention: members are the nearest of a centroid, one cluster of all rows is full attention of normal queries and keys, rows that
// no cluster took, dropout by pairs.
#include <cmath>
#include <set>

#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

AttentionCase routing_case(const std::string& settings) {
  return attention_case(settings, {"model.attention.type=routing", fmt::format("model.attention.routing={{{}}}", settings)});
}

struct Run : AttentionPass {
  using AttentionPass::AttentionPass;
  // A projection, each head's four columns normal.
  Matrix points(const std::string& part) const {
    Matrix p = projected(part);
    for (int64_t r = 0; r < p.rows; ++r)
      for (int64_t c = 0; c < p.columns; c += 4) {
        double mean = 0, square = 0;
        for (int64_t e = c; e < c + 4; ++e) mean += p(r, e) / 4;
        for (int64_t e = c; e < c + 4; ++e) square += std::pow(p(r, e) - mean, 2) / 4;
        for (int64_t e = c; e < c + 4; ++e) p(r, e) = (p(r, e) - mean) / std::sqrt(square + 1e-6);
      }
    return p;
  }
  std::vector<int32_t> members(int head, int side, int cluster, int clusters) const {
    const auto all = structures.at("attention.members").span<int32_t>();
    const auto at = static_cast<size_t>(1 + (head * 2 + side) * clusters + cluster);
    return {all.begin() + all[at], all.begin() + all[at + 1]};
  }
};

}  // namespace

TEST_CASE("every form of routing keeps what every attention keeps", "[routing]") {
  check_attention(routing_case("clusters: 3, commitment: 0.1"));
  check_attention(routing_case("clusters: 2, window: 64"));
  check_attention(routing_case("clusters: 12, window: 3, cover: false, logit_scale: 0.5, commitment: 0"));
}

TEST_CASE("routing drops pairs, the same in every cluster", "[routing]") {
  check_dropout(routing_case("clusters: 4, window: 40"));
  check_dropout(routing_case("clusters: 2, window: 70"));
}

TEST_CASE("a cluster has the nearest queries and keys, ascending, and uncovered queries join their nearest", "[routing]") {
  const int clusters = 4, n = 37, window = 6;
  const Run run(routing_case("clusters: 4, window: 6"), n);
  const Matrix mu(run.state.buffers.front()->value);
  REQUIRE(run.state.buffers.front()->name == "attention.centroids");
  int joined = 0;
  for (int h = 0; h < 2; ++h)
    for (int side = 0; side < 2; ++side) {
      const Matrix points = run.points(side == 0 ? "query" : "key");
      const auto score = [&](int i, int m) {
        double dot = 0;
        for (int d = 0; d < 4; ++d) dot += points(i, h * 4 + d) * mu(h * clusters + m, d);
        return dot;
      };
      std::vector<std::set<int>> expected(clusters);
      std::set<int> held;
      for (int m = 0; m < clusters; ++m)
        for (int i = 0; i < n; ++i) {
          int above = 0;
          for (int j = 0; j < n; ++j) above += score(j, m) > score(i, m);
          if (above >= window) continue;
          expected[static_cast<size_t>(m)].insert(i);
          held.insert(i);
        }
      for (int i = 0; side == 0 && i < n; ++i) {
        if (held.contains(i)) continue;
        int best = 0;
        for (int m = 1; m < clusters; ++m)
          if (score(i, m) > score(i, best)) best = m;
        expected[static_cast<size_t>(best)].insert(i);
        ++joined;
      }
      for (int m = 0; m < clusters; ++m) {
        const std::set<int>& set = expected[static_cast<size_t>(m)];
        CHECK(run.members(h, side, m, clusters) == std::vector<int32_t>(set.begin(), set.end()));
      }
    }
  CHECK(joined > 5);
}

TEST_CASE("equal scores go to the first rows", "[routing]") {
  const AttentionCase c = routing_case("clusters: 2, window: 3");
  const auto attention = make_attention(c, Dtype::f64);
  Structures structures;
  attention_output(*attention, test_devices().front(), Tensor::zeros(Dtype::f64, {7, 8}), Packing({7}, {0}), &structures);
  const auto all = structures.at("attention.members").span<int32_t>();
  for (const size_t list : {2u, 3u, 6u, 7u})  // the keys of both heads
    CHECK(std::vector<int32_t>(all.begin() + all[1 + list], all.begin() + all[2 + list]) == std::vector<int32_t>{0, 1, 2});
}

TEST_CASE("one cluster that takes all rows is full attention of normal queries and keys", "[routing]") {
  for (const int n : {1, 5, 64, 130}) {
    const Run run(routing_case("clusters: 1"), n);
    const Matrix o = attend(run.points("query"), run.points("key"), run.projected("value"), 2);
    CHECK(relative_error(run.y, project(o, run.parameter("output.weight"), run.parameter("output.bias"))) < 1e-12);
  }
}

TEST_CASE("without cover a query that no cluster took gets zeros", "[routing]") {
  const int n = 37, clusters = 4;
  const Run run(routing_case("clusters: 4, window: 3, cover: false"), n), covered(routing_case("clusters: 4, window: 3"), n);
  int zeros = 0;
  for (int i = 0; i < n; ++i) {
    bool none = true;
    for (int h = 0; h < 2; ++h)
      for (int m = 0; m < clusters; ++m)
        for (const int32_t member : run.members(h, 0, m, clusters)) none = none && member != i;
    double size = 0;
    for (int c = 0; c < 8; ++c) size += std::abs(run.y(i, c));
    CHECK((size == 0) == none);
    zeros += none;
    double covered_size = 0;
    for (int c = 0; c < 8; ++c) covered_size += std::abs(covered.y(i, c));
    CHECK(covered_size > 0);
  }
  CHECK(zeros > 2);
}

TEST_CASE("routing says its pairs and keeps its state", "[routing]") {
  const auto attention = make_attention(routing_case("clusters: 4"), Dtype::f32);
  CHECK(attention->pairs(100) == 4 * 25 * 25);
  CHECK(attention->pairs(1) == 1);
  CHECK(make_attention(routing_case("clusters: 4, window: 1000"), Dtype::f32)->pairs(10) == 100);
  nn::ModelState state;
  attention->visit(state);
  CHECK(state.buffers.size() == 3);
  CHECK(attention->has_auxiliary());
  CHECK_THROWS_AS(routing_case("window: 0"), Error);
  CHECK_THROWS_AS(routing_case("update: false, decay: 0.9"), Error);
}
