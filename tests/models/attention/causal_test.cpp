// SPDX-License-Identifier: Apache-2.0
// Causal heads of every pattern that has them: what stands behind a row changes nothing in it, in every form, with learned rows in front,
// beside groups of their own, and the whole battery holds; variants without a causal form and options that contradict it are faults.
#include <set>

#include "models/attention/causal_plan.h"
#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

std::vector<AttentionCase> cases() {
  const std::vector<std::pair<std::string, std::vector<std::string>>> forms = {
      {"full", {}},
      {"local", {"local.left=5"}},
      {"local", {"~model.attention.local", "local.form=blocked", "local.block=7"}},
      {"stride", {"stride.stride=[2, 3]", "stride.reach=[5, 70]"}},
      {"stride", {"stride.include_self=false"}},
      {"sparse_transformer", {"sparse_transformer.stride=9"}},
      {"sparse_transformer",
       {"sparse_transformer.stride=9", "sparse_transformer.use=heads", "sparse_transformer.summary=2", "sparse_transformer.pattern=fixed"}},
      {"global", {"global.count=2", "global.rows=[5, 40]"}},
      {"global", {"global.rows=[3]", "global.share_projections=false"}},
      {"global_external", {"global_external.count=3", "global_external.left=2"}},
      {"global_external", {"global_external.count=3", "global_external.carry=false"}},
      {"longformer", {"longformer.left=4", "longformer.rows=[6]"}},
      {"bigbird", {"bigbird.block=4", "bigbird.random_blocks=2"}},
      {"bigbird", {"bigbird.block=4", "bigbird.globals=external", "bigbird.count=3"}},
  };
  std::vector<AttentionCase> out;
  for (const auto& [type, own] : forms) {
    std::vector<std::string> overrides{"model.attention.causal=true", "model.attention.type=" + type};
    for (const std::string& one : own) overrides.push_back(one[0] == '~' ? one : "model.attention." + one);
    std::string name = "causal " + type;
    for (const std::string& one : own) name += " " + one;
    out.push_back(attention_case(name, overrides));
  }
  // Beside a group that puts learned rows in front of all.
  for (const std::string group :
       {"type: full", "type: local, local: {left: 5, right: 2}", "type: stride",
        "type: sparse_transformer, sparse_transformer: {stride: 9}",
        "type: sparse_transformer, sparse_transformer: {pattern: fixed, stride: 9, summary: 2}", "type: global, global: {rows: [4]}",
        "type: longformer, longformer: {left: 3, right: 3}", "type: bigbird, bigbird: {block: 4, random_blocks: 1}"})
    out.push_back(
        attention_case("causal groups " + group, {"~model.attention.heads", "model.attention.causal=true",
                                                  "model.attention.groups=[{heads: 1, " + group +
                                                      "}, {heads: 1, type: bigbird, bigbird: {block: 4, globals: external, count: 3}}]"}));
  return out;
}

Tensor with_other_rows(const Tensor& x, int64_t from) {
  Tensor out = x.clone();
  const Tensor other = random_tensor(x.dtype(), x.shape(), 77);
  out.rows(from, x.shape()[0] - from).copy_from(other.rows(from, x.shape()[0] - from));
  return out;
}

void check_fault(const std::vector<std::string>& overrides, const std::vector<std::string>& words) {
  try {
    model_settings(overrides);
    FAIL("accepted");
  } catch (const Error& e) {
    for (const std::string& word : words) CHECK_THAT(e.what(), Catch::Matchers::ContainsSubstring(word));
  }
}

}  // namespace

TEST_CASE("every variant that can be causal is tested", "[causal]") {
  std::set<std::string_view> can, tested;
  for (const auto& v : models::attention_variants())
    if (v.can_be_causal) can.insert(v.name);
  for (const AttentionCase& c : cases()) tested.insert(c.settings.attention.layers[0][0].variant->name);
  CHECK(can.size() == 8);
  CHECK(tested == can);
}

TEST_CASE("causal heads keep what every attention keeps", "[causal]") {
  for (const AttentionCase& c : cases()) {
    check_attention(c);
    const auto without = [&](const char* word) { return c.name.find(word) == std::string::npos; };
    if (without("share_projections=false") && without("longformer") && without("carry=false")) check_dropout(c);
  }
}

TEST_CASE("what stands behind a row changes nothing in it, whether it is there or not, and what stands before does", "[causal]") {
  const TestDevice& device = test_devices().front();
  for (const AttentionCase& c : cases()) {
    INFO(c.name);
    const auto attention = make_attention(c, device.dtype);
    const int32_t front = c.settings.attention.extra_rows.count, n = front + 150;
    const Packing packing({n}, {0});
    const Tensor x = random_tensor(device.dtype, {n, c.settings.dim}, 31);
    const Matrix y(attention_output(*attention, device, x, packing));
    int changed = 0;
    for (const int32_t from : {1, 2, 63, 64, 65, 100, 149}) {
      const Matrix other(attention_output(*attention, device, with_other_rows(x, front + from), packing));
      const Matrix alone(attention_output(*attention, device, x.rows(0, front + from).clone(), Packing({front + from}, {0})));
      double before = 0;
      for (int64_t i = 0; i < front + from; ++i)
        for (int64_t k = 0; k < y.columns; ++k)
          before = std::max({before, std::abs(other(i, k) - y(i, k)), std::abs(alone(i, k) - y(i, k))});
      CHECK(before <= 1e-13);
      for (int64_t k = 0; k < y.columns; ++k) changed += other(front + from, k) != y(front + from, k);
    }
    CHECK(changed > 0);
    double pairs = 0;  // and the count of pairs is the pattern's, hidden rows counted
    const auto& heads = dynamic_cast<const models::HeadAttention&>(*attention);
    for (int h = 0; h < 2; ++h) {
      const int32_t all = n + heads.group_of(h).hidden_rows();
      for (int32_t i = 0; i < all; ++i)
        for (int32_t j = 0; j < all; ++j) pairs += heads.group_of(h).allowed(all, h, i, j);
    }
    CHECK(attention->pairs(n) == pairs / 2);
  }
}

TEST_CASE("a causal strided window reaches `stride` rows back, as the paper's", "[causal]") {
  const auto c = attention_case(
      "strided", {"model.attention.causal=true", "model.attention.type=sparse_transformer", "model.attention.sparse_transformer.stride=6"});
  const auto attention = make_attention(c, Dtype::f64);
  const models::Heads& heads = dynamic_cast<const models::HeadAttention&>(*attention).group_of(0);
  for (int j = 0; j < 30; ++j) CHECK(heads.allowed(30, 0, 20, j) == ((j >= 14 && j <= 20) || j == 8 || j == 2));
}

TEST_CASE("a layer's pattern leaves out the rows that a group hides", "[causal]") {
  const auto c = attention_case("hidden", {"model.attention.causal=true", "model.attention.type=global_external",
                                           "model.attention.global_external.count=3", "model.attention.global_external.carry=false"});
  const auto attention = make_attention(c, Dtype::f64);
  const models::Heads& heads = dynamic_cast<const models::HeadAttention&>(*attention).group_of(0);
  for (int i = 0; i < 9; ++i)
    for (int j = 0; j < 9; ++j) CHECK(heads.allowed_in_layer(9, 0, i, j) == (i == j));
}

TEST_CASE("a cut plan of gathered rows goes by their places", "[causal]") {
  TilePlan plan = full_plan(3, 70);
  for (int32_t j = 0; j < 70; ++j) plan.key_rows.push_back(69 - j);
  plan.query_places = {0, 69, 5};
  const TilePlan cut = models::causal_plan(plan, 2);
  CHECK(cut.pairs == 2 + 70 + 6);
  for (int32_t t = 0; t < 2; ++t)
    for (const TileEntry& e : cut.by_query.entries) {
      if (e.tile != t) continue;
      for (int32_t j = t * 64; j < std::min(70, (t + 1) * 64); ++j) {
        CHECK(cut.allows(e, 0, j) == (69 - j <= 1));
        CHECK(cut.allows(e, 1, j));
        CHECK(cut.allows(e, 2, j) == (69 - j <= 5));
      }
    }
}

TEST_CASE("what cannot be causal says so with both keys", "[causal]") {
  int refused = 0;
  for (const auto& v : models::attention_variants()) {
    if (v.can_be_causal) continue;
    check_fault({"model.attention.causal=true", fmt::format("model.attention.type={}", v.name)},
                {"model.attention.causal", "model.attention.type", "has no causal form", "full, local"});
    ++refused;
  }
  CHECK(refused == 19);
  check_fault({"model.attention.causal=true", "model.pooling=first"}, {"model.pooling", "model.attention.causal"});
}

TEST_CASE("what counts from a sequence's end has no place in causal heads", "[causal]") {
  for (const auto& [type, own] : std::vector<std::pair<std::string, std::string>>{
           {"global", "rows=[2, -1]"}, {"longformer", "rows=[-3]"}, {"bigbird", "globals=ends"}, {"bigbird", "fallback=short"}})
    check_fault({"model.attention.causal=true", "model.attention.type=" + type, fmt::format("model.attention.{}.{}", type, own)},
                {fmt::format("model.attention.{}.{}", type, own.substr(0, own.find('='))), "model.attention.causal", "has grown"});
  for (const std::string key : {"local.right", "longformer.right", "global_external.right"})
    check_fault({"model.attention.causal=true", "model.attention.type=" + key.substr(0, key.find('.')), "model.attention." + key + "=2"},
                {"model.attention." + key, "model.attention.causal", "no meaning"});
}
