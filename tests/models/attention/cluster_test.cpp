// SPDX-License-Identifier: Apache-2.0
// Attention inside clusters: one cluster is full attention, queries without keys, clusters of any size, what moves in training.
#include <cstring>

#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

AttentionCase cluster_case(const std::string& settings) {
  return attention_case(settings, {"model.attention.type=cluster", fmt::format("model.attention.cluster={{{}}}", settings)});
}

Matrix output(const AttentionCase& c, int32_t n, Structures* structures = nullptr) {
  const Tensor x = random_tensor(Dtype::f64, {n, 8}, 3);
  return Matrix(attention_output(*make_attention(c, Dtype::f64), test_devices().front(), x, Packing({n}, {0}), structures));
}

// How many queries have a class that no key has.
int uncovered(const Tensor& classes) {
  const int64_t n = classes.shape()[1];
  int count = 0;
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t i = 0; i < n; ++i) {
      const int32_t* keys = classes.data<int32_t>() + (2 + h) * n;
      count += std::find(keys, keys + n, classes.data<int32_t>()[h * n + i]) == keys + n;
    }
  return count;
}

}  // namespace

TEST_CASE("every form of cluster keeps what every attention keeps", "[cluster]") {
  check_attention(cluster_case("clusters: 4"));
  check_attention(cluster_case("clusters: 1, commitment: 0"));
  check_attention(cluster_case("clusters: 40, cover_empty: self"));
  check_attention(cluster_case("clusters: 40, cover_empty: zero, update: false, commitment: 0.1"));
}

TEST_CASE("one cluster is full attention", "[cluster]") {
  const AttentionCase full = attention_case("full", {"model.attention.type=full"});
  for (const int n : {1, 5, 64, 130}) CHECK(relative_error(output(cluster_case("clusters: 1"), n), output(full, n)) <= 1e-13);
  CHECK(relative_error(output(cluster_case("clusters: 4"), 64), output(full, 64)) > 1e-3);
}

TEST_CASE("a query whose class has no key sees itself, or nothing", "[cluster]") {
  Structures structures;
  const Matrix self = output(cluster_case("clusters: 40"), 30, &structures);
  const int without = uncovered(structures.at("attention.classes"));
  CHECK(without > 3);
  const Matrix zero = output(cluster_case("clusters: 40, cover_empty: zero"), 30);
  int differ = 0;
  for (int64_t r = 0; r < 30; ++r) differ += std::abs(self(r, 0) - zero(r, 0)) > 1e-9;
  CHECK(differ > 0);
  CHECK(differ <= without);
}

TEST_CASE("clusters may be as uneven as they like", "[cluster]") {
  // All keys in one class, and queries of every class: those of the others see themselves.
  const AttentionCase c = cluster_case("clusters: 3");
  const Packing packing({70}, {0});
  const Tensor x = random_tensor(Dtype::f64, {70, 8}, 3);
  const auto attention = make_attention(c, Dtype::f64);
  Tensor classes = Tensor::zeros(Dtype::i32, {4, 70});
  for (int64_t i = 0; i < 140; ++i) classes.data<int32_t>()[i] = static_cast<int32_t>(i % 3);
  Structures structures{{"attention.classes", classes}};
  const Matrix y(attention_output(*attention, test_devices().front(), x, packing, &structures));
  CHECK(relative_error(y, dense_attention(*attention, Matrix(x), packing, &structures)) < 1e-12);
}

TEST_CASE("the state of cluster is saved, and its keys are checked", "[cluster]") {
  nn::ModelState state;
  const auto attention = make_attention(cluster_case("clusters: 5"), Dtype::f32);
  attention->visit(state);
  CHECK(attention->has_auxiliary());
  std::vector<std::string> names;
  for (const nn::Buffer* b : state.buffers) names.push_back(b->name);
  CHECK(names == std::vector<std::string>{"attention.centroids", "attention.centroid_counts", "attention.centroid_sums"});
  CHECK_FALSE(make_attention(cluster_case("commitment: 0"), Dtype::f32)->has_auxiliary());
  CHECK_THROWS_AS(cluster_case("decay: 1"), Error);
  CHECK_THROWS_AS(cluster_case("clusters: 0"), Error);
  CHECK_THROWS_WITH(cluster_case("update: false, decay: 0.9, epsilon: 0.1"),
                    Catch::Matchers::ContainsSubstring("cluster.decay' has no meaning with 'model.attention.cluster.update: false'") &&
                        Catch::Matchers::ContainsSubstring("cluster.epsilon' has no meaning"));
  CHECK(attention->pairs(100) == 2000);
  CHECK(attention->pairs(3) == 3);
}

TEST_CASE("cluster drops pairs by their places", "[cluster]") { check_dropout(cluster_case("clusters: 4")); }
