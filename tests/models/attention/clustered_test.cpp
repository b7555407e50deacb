// SPDX-License-Identifier: Apache-2.0
// Clustered attention: exact where members of a group are equal, full attention with a group for each query, redraws, groups by their
// codes.
#include <algorithm>
#include <bit>
#include <set>

#include "framework/core/random.h"
#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

AttentionCase clustered_case(const std::string& settings) {
  return attention_case(settings, {"model.attention.type=clustered", fmt::format("model.attention.clustered={{{}}}", settings)});
}

Matrix output(models::Attention& attention, const Tensor& x, Structures* structures = nullptr) {
  const auto n = static_cast<int32_t>(x.shape()[0]);
  return Matrix(attention_output(attention, test_devices().front(), x, Packing({n}, {0}), structures));
}
Matrix output(const AttentionCase& c, const Tensor& x, Structures* structures = nullptr) {
  return output(*make_attention(c, Dtype::f64), x, structures);
}

// n rows that are `distinct` different ones over and over.
Tensor repeated(int64_t n, int64_t distinct) {
  const Tensor x = random_tensor(Dtype::f64, {distinct, 8}, 3), out(Dtype::f64, {n, 8});
  for (int64_t i = 0; i < n; ++i) out.rows(i, 1).copy_from(x.rows(i % distinct, 1));
  return out;
}

std::vector<int32_t> groups_of(const Structures& structures, int head) {
  const Tensor& all = structures.at("attention.groups_of_queries");
  const int32_t* row = all.data<int32_t>() + head * all.shape()[1];
  return {row, row + all.shape()[1]};
}

}  // namespace

TEST_CASE("every form of clustered keeps what every attention keeps", "[clustered]") {
  check_attention(clustered_case("clusters: 4, bits: 8"));
  check_attention(clustered_case("clusters: 70, bits: 3, iterations: 3, hash_bias: false"));
  check_attention(clustered_case("clusters: 1, bits: 64, iterations: 1"));
}

TEST_CASE("clustered drops a group's key for all its queries", "[clustered]") {
  check_dropout(clustered_case("clusters: 5, bits: 16"), [](const Structures& s, int head, int32_t i, int32_t) {
    return std::pair("cluster_dropout", groups_of(s, head)[static_cast<size_t>(i)]);
  });
}

TEST_CASE("where the queries of a group are equal, clustered attention is full", "[clustered]") {
  const AttentionCase full = attention_case("full", {"model.attention.type=full"});
  const Tensor x = repeated(66, 3);
  CHECK(relative_error(output(clustered_case("clusters: 60, bits: 64"), x), output(full, x)) < 1e-13);
  CHECK(relative_error(output(clustered_case("clusters: 1"), x), output(full, x)) > 1e-3);
}

TEST_CASE("with a group for each query, clustered attention is full", "[clustered]") {
  const AttentionCase full = attention_case("full", {"model.attention.type=full"});
  const Tensor x = random_tensor(Dtype::f64, {20, 8}, 3);
  Structures structures;
  const Matrix y = output(clustered_case("clusters: 20, bits: 64"), x, &structures);
  for (int h = 0; h < 2; ++h) {
    const std::vector<int32_t> groups = groups_of(structures, h);
    CHECK(std::set<int32_t>(groups.begin(), groups.end()).size() == 20);  // all codes differ
  }
  CHECK(relative_error(y, output(full, x)) < 1e-13);
}

TEST_CASE("one bit groups queries by the side of its plane, which is another one after an update", "[clustered]") {
  const Tensor x = random_tensor(Dtype::f64, {40, 8}, 3);
  for (const bool bias : {true, false}) {
    const auto attention =
        make_attention(clustered_case(fmt::format("clusters: 40, bits: 1, iterations: 1, hash_bias: {}", bias)), Dtype::f64);
    nn::ModelState state;
    attention->visit(state);
    const Matrix w(state.parameters[0]->value), rows(x);
    REQUIRE(state.parameters[0]->name == "attention.query.weight");
    for (uint32_t redraws = 0; redraws < 2; ++redraws) {
      Structures structures;
      output(*attention, x, &structures);
      for (int h = 0; h < 2; ++h) {
        const Draw plane{random_key(5, "planes", "attention", h), no_sample, redraws};
        std::vector<bool> side;
        for (int64_t i = 0; i < 40; ++i) {
          double dot = 0;
          for (int64_t d = 0; d < 4; ++d)
            for (int64_t c = 0; c < 8; ++c) dot += plane.gaussian(0, static_cast<uint32_t>(d)) * w(h * 4 + d, c) * rows(i, c);
          side.push_back(dot > (bias ? plane.gaussian(0, 4) : 0));
        }
        const std::vector<int32_t> groups = groups_of(structures, h);
        int wrong = 0;
        for (size_t i = 0; i < 40; ++i)
          for (size_t j = 0; j < 40; ++j) wrong += (groups[i] == groups[j]) != (side[i] == side[j]);
        CHECK(wrong == 0);
      }
      Context update{.mode = Mode::train, .step = 1};
      attention->after_update(update);
    }
  }
}

TEST_CASE("groups start at the codes of the picked queries", "[clustered]") {
  const int bits = 8;
  const AttentionPass run(clustered_case("clusters: 6, bits: 8, iterations: 1"), 40);
  const Matrix q = run.projected("query");
  for (int h = 0; h < 2; ++h) {
    const Draw planes{random_key(5, "planes", "attention", h), no_sample, 0}, picked{random_key(5, "picks", "attention", h), no_sample, 0};
    std::vector<unsigned> codes(40);
    std::vector<std::pair<uint32_t, size_t>> words;
    for (size_t i = 0; i < codes.size(); ++i) {
      words.emplace_back(picked.word(0, static_cast<uint32_t>(i)), i);
      for (uint32_t bit = 0; bit < bits; ++bit) {
        double dot = 0;
        for (uint32_t d = 0; d < 4; ++d) dot += planes.gaussian(bit, d) * q(static_cast<int64_t>(i), h * 4 + d);
        codes[i] |= unsigned{dot > planes.gaussian(bit, 4)} << bit;
      }
    }
    std::sort(words.begin(), words.end());
    std::vector<int32_t> expected;
    for (const unsigned code : codes) {
      int32_t nearest = 0;
      const auto distance = [&](int32_t c) { return std::popcount(code ^ codes[words[static_cast<size_t>(c)].second]); };
      for (int32_t c = 1; c < 6; ++c)
        if (distance(c) < distance(nearest)) nearest = c;
      expected.push_back(nearest);
    }
    CHECK(groups_of(run.structures, h) == expected);
  }
}

TEST_CASE("planes are drawn anew after every update and are found again from the saved count", "[clustered]") {
  const AttentionCase c = clustered_case("clusters: 6, bits: 8");
  const Tensor x = random_tensor(Dtype::f64, {40, 8}, 3);
  const auto attention = make_attention(c, Dtype::f64), restored = make_attention(c, Dtype::f64);
  Structures first, second, again, found;
  output(*attention, x, &first);
  Context update{.mode = Mode::train, .step = 1};
  attention->after_update(update);
  output(*attention, x, &second);
  output(*attention, x, &again);
  CHECK(groups_of(second, 0) != groups_of(first, 0));
  CHECK(groups_of(second, 0) == groups_of(again, 0));
  nn::ModelState state;
  restored->visit(state);
  REQUIRE(state.buffers.size() == 1);
  state.buffers[0]->value.data<int64_t>()[0] = 1;
  output(*restored, x, &found);
  CHECK(groups_of(second, 0) == groups_of(found, 0));
  CHECK(groups_of(second, 1) == groups_of(found, 1));
}

TEST_CASE("clustered says its pairs and refuses codes of more than 64 bits", "[clustered]") {
  const auto attention = make_attention(clustered_case("clusters: 6"), Dtype::f32);
  CHECK(attention->pairs(100) == 600);
  CHECK(attention->pairs(4) == 16);
  CHECK_THROWS_AS(clustered_case("bits: 65"), Error);
}
