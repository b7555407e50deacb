// SPDX-License-Identifier: Apache-2.0
// Causal heads of every variant that has them: what stands behind a row changes nothing in it, in every form, with learned rows in front,
// beside groups of their own, and the whole battery holds; variants without a causal form and options that contradict it are faults.
#include <set>

#include "models/attention/causal_plan.h"
#include "models/attention/feature_heads.h"
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
      {"linear", {}},
      {"performer", {"performer.features=10"}},
      {"performer", {"performer.features=12", "performer.kernel=hyperbolic", "performer.epsilon=0.1"}},
      {"performer", {"performer.features=9", "performer.kernel=relu"}},
      {"rfa", {"rfa.features=6"}},
      {"cosformer", {"cosformer.max_length=1000"}},
      {"mixer", {"mixer.max_length=400", "mixer.hidden=30"}},
      {"mixer", {"mixer.max_length=400", "mixer.hidden=500"}},
      {"efficient", {}},
      {"cluster", {"cluster.clusters=5"}},
      {"cluster", {"cluster.clusters=9", "cluster.cover_empty=zero"}},
      {"synthesizer", {"synthesizer.max_length=400", "synthesizer.rank=3"}},
      {"synthesizer", {"synthesizer.max_length=400", "synthesizer.mode=dense", "synthesizer.mixture=alpha"}},
      {"synthesizer", {"synthesizer.max_length=400", "synthesizer.mode=random", "synthesizer.mixture=sum"}},
      {"synthesizer", {"synthesizer.max_length=400", "synthesizer.mode=factorised_dense"}},
      {"sinkhorn", {"sinkhorn.block=7"}},
      {"sinkhorn", {"sinkhorn.block=64", "sinkhorn.net=two_layers"}},
      {"sinkhorn", {"sinkhorn.block=3", "sinkhorn.net=attention", "sinkhorn.add_full=true"}},
      {"compressed", {}},
      {"compressed", {"compressed.mode=mean", "compressed.factor=2", "compressed.kernel=5"}},
      {"compressed", {"compressed.mode=max", "compressed.factor=4", "compressed.kernel=1"}},
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
        "type: longformer, longformer: {left: 3, right: 3}", "type: bigbird, bigbird: {block: 4, random_blocks: 1}", "type: linear",
        "type: performer, performer: {features: 6}", "type: cluster, cluster: {clusters: 3}", "type: compressed",
        "type: synthesizer, synthesizer: {max_length: 400, mixture: sum}", "type: sinkhorn, sinkhorn: {block: 2, max_length: 400}"})
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
  CHECK(can.size() == 18);
  CHECK(tested == can);
}

TEST_CASE("causal heads keep what every attention keeps", "[causal]") {
  for (const AttentionCase& c : cases()) {
    check_attention(c);
    bool drops = c.settings.attention.layers[0][0].variant->has_probabilities;
    // No dropout, or other rows than the oracle's.
    for (const char* word : {"type: performer", "type: linear", "sinkhorn"}) drops = drops && c.name.find(word) == std::string::npos;
    if (drops) check_dropout(c);
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
      // One other row changes some row behind it, which is the same itself.
      Tensor one = x.clone();
      one.rows(front + from, 1).copy_from(random_tensor(x.dtype(), {1, x.shape()[1]}, 78));
      const Matrix beside(attention_output(*attention, device, one, packing));
      for (int64_t i = front + from + 1; i < n; ++i)
        for (int64_t k = 0; k < y.columns; ++k) changed += beside(i, k) != y(i, k);
    }
    const auto without = [&](const char* word) { return c.name.find(word) == std::string::npos; };
    CHECK((changed > 0) == without("carry=false"));  // whose rows see learned ones and themselves
    // And the count of pairs is the pattern's; clusters are chosen from the data.
    if (c.name.find("cluster") != std::string::npos) continue;
    const auto* heads = dynamic_cast<const models::HeadAttention*>(attention.get());
    const auto seen = [&](int h, int32_t rows, int32_t i, int32_t j) {
      return heads ? heads->group_of(h).allowed(rows, h, i, j) : attention->mixes(rows, i, j);
    };
    double pairs = 0;  // hidden rows counted
    for (int h = 0; h < 2; ++h) {
      const int32_t all = n + (heads ? heads->group_of(h).hidden_rows() : 0);
      for (int32_t i = 0; i < all; ++i)
        for (int32_t j = 0; j < all; ++j) pairs += seen(h, all, i, j);
    }
    // Compressed heads count windows, those of sinkhorn sorted slots.
    if (without("compressed") && without("sinkhorn")) CHECK(attention->pairs(n) == pairs / 2);
  }
}

TEST_CASE("a row takes from those rows that the patterns of causal windows and hidden positions have", "[causal]") {
  for (const AttentionCase& c : cases()) {
    if (!c.name.starts_with("causal compressed") && !c.name.starts_with("causal mixer")) continue;
    INFO(c.name);
    const auto attention = make_attention(c, Dtype::f64);
    const auto* heads = dynamic_cast<const models::HeadAttention*>(attention.get());
    const int32_t n = 40;
    const Packing packing({n}, {0});
    const Tensor x = random_tensor(Dtype::f64, {n, c.settings.dim}, 31);
    const Matrix y(attention_output(*attention, test_devices().front(), x, packing));
    for (int32_t j = 0; j < n; ++j) {
      Tensor other = x.clone();
      other.rows(j, 1).copy_from(random_tensor(Dtype::f64, {1, c.settings.dim}, 32));
      const Matrix changed(attention_output(*attention, test_devices().front(), other, packing));
      for (int32_t i = 0; i < n; ++i) {
        if (heads && i == j) continue;  // its own query
        double apart = 0;
        for (int64_t k = 0; k < y.columns; ++k) apart = std::max(apart, std::abs(changed(i, k) - y(i, k)));
        INFO(i << " takes from " << j);
        CHECK((apart > 1e-14) == (heads ? heads->group_of(0).allowed(n, 0, i, j) : attention->mixes(n, i, j)));
      }
    }
  }
}

TEST_CASE("large inputs of causal kernels neither overflow nor leave a denominator of zero, forward and backward", "[causal]") {
  int forms = 0;
  for (const AttentionCase& c : cases()) {
    const auto whole = make_attention(c, Dtype::f64);
    const auto* heads = dynamic_cast<const models::HeadAttention*>(whole.get());
    if (!heads || !dynamic_cast<const models::FeatureHeads*>(&heads->group_of(0)) || c.settings.attention.extra_rows.count > 0) continue;
    ++forms;
    for (const TestDevice& device : test_devices())
      for (const double deviation : {20.0, 400.0}) {
        INFO(c.name << " on " << device.name << ", inputs of " << deviation);
        const auto attention = make_attention(c, device.dtype);
        const Packing packing({570, 3}, {0, 1});
        const Tensor x = random_tensor(device.dtype, {573, 8}, 3, deviation);
        CHECK(all_finite(attention_output(*attention, device, x, packing)));
        for (const Tensor& gradient : gradients_of(*attention, device.on, device.dtype, x, packing)) CHECK(all_finite(gradient));
      }
  }
  CHECK(forms == 7);
}

TEST_CASE("causal compressed heads count the first row and the windows that end before a row", "[causal]") {
  const auto c = attention_case("windows", {"model.attention.causal=true", "model.attention.type=compressed",
                                            "model.attention.compressed.factor=2", "model.attention.compressed.kernel=3"});
  CHECK(make_attention(c, Dtype::f64)->pairs(7) == 1 + 1 + 1 + 2 + 2 + 3 + 3);  // windows 0..2, 2..4, 4..6
}

TEST_CASE("causal sinkhorn heads count the slots of a sorted block but in the first, and their own rows so far", "[causal]") {
  const auto c =
      attention_case("slots", {"model.attention.causal=true", "model.attention.type=sinkhorn", "model.attention.sinkhorn.block=3"});
  CHECK(make_attention(c, Dtype::f64)->pairs(7) == 1 + 2 + 3 + 4 + 5 + 6 + 4);
}

TEST_CASE("a causal row of sinkhorn takes from all blocks before its own, and from its own up to itself", "[causal]") {
  for (const char* net : {"linear", "two_layers", "attention"}) {
    const auto c = attention_case("blocks", {"model.attention.causal=true", "model.attention.type=sinkhorn",
                                             "model.attention.sinkhorn.block=4", fmt::format("model.attention.sinkhorn.net={}", net)});
    const auto attention = make_attention(c, Dtype::f64);
    const int32_t n = 18;
    Context context{.on = test_devices().front().on, .dtype = Dtype::f64};
    const Matrix w(attention->weights(context, {random_tensor(Dtype::f64, {n, 8}, 31), no_node}, Packing({n}, {0}), {}));
    for (int32_t h = 0; h < 2; ++h)
      for (int32_t i = 0; i < n; ++i) {
        double sum = 0;
        for (int32_t j = 0; j < n; ++j) {
          INFO(net << ", head " << h << ": " << i << " from " << j);
          CHECK((w(h * n + i, j) > 0) == (j <= i));
          sum += w(h * n + i, j);
        }
        CHECK(std::abs(sum - 1) <= 1e-12);
      }
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
  CHECK(refused == 9);
  check_fault({"model.attention.causal=true", "model.pooling=first"}, {"model.pooling", "model.attention.causal"});
}

TEST_CASE("what counts from a sequence's end has no place in causal heads", "[causal]") {
  for (const auto& [type, own] : std::vector<std::pair<std::string, std::string>>{{"global", "rows=[2, -1]"},
                                                                                  {"longformer", "rows=[-3]"},
                                                                                  {"bigbird", "globals=ends"},
                                                                                  {"bigbird", "fallback=short"},
                                                                                  {"cosformer", "max_length=own"}})
    check_fault({"model.attention.causal=true", "model.attention.type=" + type, fmt::format("model.attention.{}.{}", type, own)},
                {fmt::format("model.attention.{}.{}", type, own.substr(0, own.find('='))), "model.attention.causal", "has grown"});
  for (const std::string option : {"hard=true", "sort_cut=2"})
    check_fault({"model.attention.causal=true", "model.attention.type=sinkhorn", "model.attention.sinkhorn." + option},
                {"model.attention.sinkhorn." + option.substr(0, option.find('=')), "model.attention.causal", "what stands behind them"});
  for (const std::string key : {"sinkhorn.iterations", "local.right", "longformer.right", "global_external.right"})
    check_fault({"model.attention.causal=true", "model.attention.type=" + key.substr(0, key.find('.')), "model.attention." + key + "=2"},
                {"model.attention." + key, "model.attention.causal", "no meaning"});
}
