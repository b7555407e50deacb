// SPDX-License-Identifier: Apache-2.0
// BigBird: the layout's rules, that it depends on head, layer and number of blocks alone, the limits, the opt-in to full attention.
#include <algorithm>
#include <set>

#include "framework/core/random.h"
#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

AttentionCase bigbird_case(const std::string& settings) {
  return attention_case(settings, {"model.attention.type=bigbird", fmt::format("model.attention.bigbird={{{}}}", settings)});
}

const models::Heads& heads_of(const std::unique_ptr<models::Attention>& a, int head = 0) {
  return dynamic_cast<models::HeadAttention&>(*a).group_of(head);
}

// The blocks that block u sees, by its first row.
std::set<int> seen_by(const models::Heads& heads, int n, int block, int head, int u) {
  std::set<int> seen;
  for (int j = 0; j < n; ++j)
    if (heads.allowed(n, head, u * block, j)) seen.insert(j / block);
  return seen;
}

Matrix output(const AttentionCase& c, int32_t n) {
  const Tensor x = random_tensor(Dtype::f64, {n, 8}, 3);
  return Matrix(attention_output(*make_attention(c, Dtype::f64), test_devices().front(), x, Packing({n}, {0})));
}

}  // namespace

TEST_CASE("every form of bigbird keeps what every attention keeps", "[bigbird]") {
  check_attention(bigbird_case("block: 4, random_blocks: 2"));
  check_attention(bigbird_case("block: 3, random_blocks: 1, globals: ends"));
  check_attention(bigbird_case("block: 5, random_blocks: 0"));
  check_attention(bigbird_case("block: 7, random_blocks: 1, globals: external, count: 3"));
  check_attention(bigbird_case("block: 1, random_blocks: 1"));  // of the 16 rows whose gradients are checked, most see six
  check_attention(bigbird_case("block: 2, random_blocks: 1, globals: external, count: 1"));
  check_attention(bigbird_case("block: 64, random_blocks: 3"));
  check_attention(bigbird_case("block: 4, random_blocks: 1, fallback: short"));
  check_attention(bigbird_case("block: 3, random_blocks: 2, random_prefix: 4"));
}

TEST_CASE("a block sees its neighbours, the global ones and random ones beside them", "[bigbird]") {
  const auto attention = make_attention(bigbird_case("block: 4, random_blocks: 2"), Dtype::f64);
  const int n = 81, blocks = 21;
  int differ = 0;
  for (int u = 1; u < blocks; ++u) {
    const std::set<int> seen = seen_by(heads_of(attention), n, 4, 0, u);
    std::set<int> base{0, u - 1, u};
    if (u + 1 < blocks) base.insert(u + 1);
    for (const int v : base) CHECK(seen.contains(v));
    CHECK(seen.size() == base.size() + 2);
    differ += seen != seen_by(heads_of(attention), n, 4, 1, u);
  }
  CHECK(differ > blocks / 2);
  CHECK(seen_by(heads_of(attention), n, 4, 0, 0).size() == blocks);
  // Few blocks: all that are legal.
  CHECK(seen_by(heads_of(attention), 20, 4, 0, 2).size() == 5);
}

TEST_CASE("the random blocks of a block are those of the smallest words of its row", "[bigbird]") {
  constexpr int32_t n = 81, blocks = 21;
  const auto attention = make_attention(bigbird_case("block: 4, random_blocks: 2"), Dtype::f64);
  Context context{.on = test_devices().front().on, .dtype = Dtype::f64};
  const Matrix weights(attention->weights(context, {random_tensor(Dtype::f64, {n, 8}, 3), no_node}, Packing({n}, {0}), {}));
  for (int head = 0; head < 2; ++head) {
    const Draw layout{random_key(5, "layout", "attention", head), no_sample, blocks};
    for (int u = 1; u < blocks; ++u) {
      std::set<int> expected{0, u - 1, u};
      if (u + 1 < blocks) expected.insert(u + 1);
      std::vector<std::pair<uint32_t, int>> words;
      for (int v = 0; v < blocks; ++v)
        if (!expected.contains(v)) words.emplace_back(layout.word(static_cast<uint32_t>(u), static_cast<uint32_t>(v)), v);
      std::sort(words.begin(), words.end());
      for (size_t w = 0; w < std::min<size_t>(2, words.size()); ++w) expected.insert(words[w].second);
      std::set<int> seen;
      for (int j = 0; j < n; ++j)
        if (weights(head * n + u * 4, j) != 0) seen.insert(j / 4);
      CHECK(seen == expected);
      CHECK(seen_by(heads_of(attention, head), n, 4, head, u) == expected);
    }
  }
}

TEST_CASE("random blocks may be kept to the first ones", "[bigbird]") {
  const auto attention = make_attention(bigbird_case("block: 4, random_blocks: 2, random_prefix: 6"), Dtype::f64);
  for (int head = 0; head < 2; ++head)
    for (int u = 8; u < 21; ++u) {  // neither their neighbours nor the global block are among the blocks 1 to 5
      std::set<int> drawn = seen_by(heads_of(attention, head), 81, 4, head, u);
      for (const int v : {0, u - 1, u, u + 1}) drawn.erase(v);
      CHECK(drawn.size() == 2);
      CHECK(*drawn.rbegin() < 6);
    }
  // Fewer than two are left beside the neighbours: all of them.
  const auto few = make_attention(bigbird_case("block: 4, random_blocks: 2, random_prefix: 2"), Dtype::f64);
  CHECK(seen_by(heads_of(few), 81, 4, 0, 10) == std::set<int>{0, 1, 9, 10, 11});
}

TEST_CASE("the pairs are those of the layout, which the batch cannot change", "[bigbird]") {
  const auto attention = make_attention(bigbird_case("block: 4, random_blocks: 2, globals: ends"), Dtype::f64);
  for (const int n : {1, 4, 30, 83}) {
    double pairs = 0;
    for (int h = 0; h < 2; ++h)
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) pairs += heads_of(attention, h).allowed(n, h, i, j);
    CHECK(attention->pairs(n) == pairs / 2);
  }
}

TEST_CASE("the layout is the seed's and the layer's", "[bigbird]") {
  const AttentionCase c = bigbird_case("block: 1, random_blocks: 2");
  const auto make = [&](uint64_t seed, const char* name) {
    return models::make_attention({.seed = seed, .dtype = Dtype::f64}, name, {.dim = 8, .max_length = 300}, c.settings.attention);
  };
  const auto differ = [&](const std::unique_ptr<models::Attention>& a, const std::unique_ptr<models::Attention>& b) {
    int count = 0;
    for (int u = 0; u < 40; ++u) count += seen_by(heads_of(a), 40, 1, 0, u) != seen_by(heads_of(b), 40, 1, 0, u);
    return count;
  };
  CHECK(differ(make(1, "a"), make(1, "a")) == 0);
  CHECK(differ(make(1, "a"), make(2, "a")) > 20);
  CHECK(differ(make(1, "a"), make(1, "b")) > 20);
}

TEST_CASE("with all legal blocks drawn, or short sequences by choice, it is full attention", "[bigbird]") {
  const AttentionCase full = attention_case("full", {"model.attention.type=full"});
  for (const int n : {1, 5, 64, 130})
    CHECK(relative_error(output(bigbird_case("block: 3, random_blocks: 50"), n), output(full, n)) <= 1e-13);
  const AttentionCase by_choice = bigbird_case("block: 4, random_blocks: 1, fallback: short");  // up to 28 rows
  CHECK(relative_error(output(by_choice, 28), output(full, 28)) <= 1e-13);
  CHECK(relative_error(output(by_choice, 29), output(full, 29)) > 1e-6);
  CHECK(relative_error(output(bigbird_case("block: 4, random_blocks: 1"), 28), output(full, 28)) > 1e-6);
}

TEST_CASE("full attention for short sequences is said", "[bigbird]") {
  config::Document document = config::Document::from_text(
      "model: {attention: {type: bigbird, bigbird: {block: 4, random_blocks: 1, fallback: short}}}\n", "test.yaml", {});
  models::read_model_settings(document.root());
  const std::vector<std::string> warnings = document.finish();
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0],
             Catch::Matchers::ContainsSubstring("28 rows") && Catch::Matchers::ContainsSubstring("model.attention.bigbird.fallback"));
  CHECK_THROWS_AS(model_settings({"model.attention.bigbird.globals=last"}), Error);
  CHECK_THROWS_WITH(
      model_settings({"model.attention.type=bigbird", "model.attention.bigbird={globals: ends, count: 4}"}),
      Catch::Matchers::ContainsSubstring("'model.attention.bigbird.count' has no meaning with 'model.attention.bigbird.globals: ends'"));
  CHECK_THROWS_WITH(model_settings({"model.attention.type=bigbird", "model.attention.bigbird={random_blocks: 0, random_prefix: 4}"}),
                    Catch::Matchers::ContainsSubstring("'model.attention.bigbird.random_prefix' has no meaning"));
}
