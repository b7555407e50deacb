// SPDX-License-Identifier: Apache-2.0
// Sparse Transformer: both patterns by the definition, in one softmax or in turns; two layers reach every pair.
#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

AttentionCase sparse_case(const std::string& settings, int layer = 0) {
  AttentionCase c = attention_case(
      settings, {"model.attention.type=sparse_transformer", fmt::format("model.attention.sparse_transformer={{{}}}", settings)});
  c.layer = layer;
  return c;
}

std::string keys_of(const models::Heads& heads, int n, int head, int i) {
  std::string text;
  for (int j = 0; j < n; ++j) text += heads.allowed(n, head, i, j) ? '#' : '.';
  return text;
}

const models::Heads& heads_of(const std::unique_ptr<models::Attention>& a) { return dynamic_cast<models::HeadAttention&>(*a).group_of(0); }

Matrix weights(const AttentionCase& c, int32_t n) {
  Context context{.on = test_devices().front().on, .dtype = Dtype::f64};
  const Tensor x = random_tensor(Dtype::f64, {n, 8}, 3);
  return Matrix(make_attention(c, Dtype::f64)->weights(context, {x, no_node}, Packing({n}, {0}), {}));
}

}  // namespace

TEST_CASE("every form of sparse_transformer keeps what every attention keeps", "[sparse_transformer]") {
  for (const char* pattern : {"strided, stride: 6", "fixed, stride: 6, summary: 2", "strided, stride: 1", "fixed, stride: 5, summary: 5",
                              "strided, stride: 200", "fixed, stride: 70, summary: 8"})
    for (const char* use : {"merged", "heads", "alternating"})
      for (const int layer : {0, 1}) {
        if (layer == 1 && std::string(use) != "alternating") continue;
        check_attention(sparse_case(fmt::format("pattern: {}, use: {}", pattern, use), layer));
      }
}

TEST_CASE("the patterns", "[sparse_transformer]") {
  const auto strided = make_attention(sparse_case("pattern: strided, stride: 4"), Dtype::f64);
  CHECK(keys_of(heads_of(strided), 12, 0, 5) == ".#.#####.#..");
  CHECK(keys_of(heads_of(strided), 12, 0, 0) == "###.#...#...");
  const auto fixed = make_attention(sparse_case("pattern: fixed, stride: 4, summary: 1"), Dtype::f64);
  CHECK(keys_of(heads_of(fixed), 10, 0, 5) == "...#####.#");  // the last block has two rows
  const auto by_head = make_attention(sparse_case("pattern: fixed, stride: 4, summary: 1, use: heads"), Dtype::f64);
  CHECK(keys_of(heads_of(by_head), 10, 0, 5) == "....####..");
  CHECK(keys_of(heads_of(by_head), 10, 1, 5) == "...#...#.#");
  for (const int layer : {0, 1}) {
    const auto alternating = make_attention(sparse_case("pattern: strided, stride: 4, use: alternating", layer), Dtype::f64);
    CHECK(keys_of(heads_of(alternating), 12, 1, 5) == (layer == 0 ? "...#####...." : ".#...#...#.."));
  }
  for (const auto* a : {&strided, &fixed, &by_head}) {
    double pairs = 0;
    for (int h = 0; h < 2; ++h)
      for (int i = 0; i < 30; ++i)
        for (int j = 0; j < 30; ++j) pairs += heads_of(*a).allowed(30, h, i, j);
    CHECK((*a)->pairs(30) == pairs / 2);
  }
}

TEST_CASE("layers take turns among those that are sparse", "[sparse_transformer]") {
  AttentionCase c =
      attention_case("with others between", {"model.layers=4", "model.attention.sparse_transformer={stride: 4, use: alternating}",
                                             "model.attention.type=[sparse_transformer, full, sparse_transformer, full]"});
  std::vector<std::string> seen;
  for (const int layer : {0, 2}) {
    c.layer = layer;
    seen.push_back(keys_of(heads_of(make_attention(c, Dtype::f64)), 12, 0, 5));
  }
  CHECK(seen == std::vector<std::string>{"...#####....", ".#...#...#.."});
}

TEST_CASE("the near pattern and then the far one reach every pair", "[sparse_transformer]") {
  const int32_t n = 23;
  for (const char* pattern : {"fixed, stride: 6, summary: 2", "strided, stride: 6"}) {
    const Matrix near = weights(sparse_case(fmt::format("pattern: {}, use: alternating", pattern), 0), n);
    const Matrix far = weights(sparse_case(fmt::format("pattern: {}, use: alternating", pattern), 1), n);
    // The halved window lacks residues at the ends, so there strided reaches only the keys further in.
    const int margin = std::string(pattern).starts_with("strided") ? 3 : 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = margin; j < n - margin; ++j) {
        double through = 0;
        for (int64_t k = 0; k < n; ++k) through += far(i, k) * near(k, j);
        INFO(pattern << ": " << i << " from " << j);
        CHECK(through > 0);
      }
  }
}

TEST_CASE("causal layers in turns reach every row before, with summaries those of earlier blocks", "[sparse_transformer]") {
  const int32_t n = 23, stride = 6;
  for (const char* pattern : {"fixed, stride: 6, summary: 2", "strided, stride: 6"}) {
    std::vector<Matrix> turns;
    for (const int layer : {0, 1}) {
      AttentionCase c = sparse_case(fmt::format("pattern: {}, use: alternating", pattern), layer);
      c.settings.attention.causal = true;
      turns.push_back(weights(c, n));
    }
    const bool fixed = std::string(pattern).starts_with("fixed");
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double through = 0;
        for (int64_t k = 0; k < n; ++k) through += turns[1](i, k) * turns[0](k, j);
        INFO(pattern << ": " << i << " from " << j);
        if (j > i) CHECK(through == 0);
        else if (!fixed || j / stride < i / stride) CHECK(through > 0);
      }
  }
}

TEST_CASE("a stride that covers the sequence is full attention", "[sparse_transformer]") {
  for (const int n : {1, 2, 65}) {
    const Matrix full = weights(attention_case("full", {"model.attention.type=full"}), n);
    CHECK(relative_error(weights(sparse_case(fmt::format("pattern: strided, stride: {}", 2 * n)), n), full) <= 1e-13);
    CHECK(relative_error(weights(sparse_case(fmt::format("pattern: fixed, stride: {}, summary: 1", n)), n), full) <= 1e-13);
  }
}

TEST_CASE("turns over the heads of one head are a fault that names both keys", "[sparse_transformer]") {
  using Catch::Matchers::ContainsSubstring;
  const std::string use = "model.attention.sparse_transformer.use";
  const auto read = [&](const char* heads, const char* turns) {
    model_settings({"model.attention.type=sparse_transformer", std::string("model.attention.heads=") + heads, use + "=" + turns});
  };
  CHECK_THROWS_WITH(read("1", "heads"), ContainsSubstring(use) && ContainsSubstring("'model.attention.heads' is 1"));
  CHECK_NOTHROW(read("2", "heads"));
  CHECK_NOTHROW(read("1", "merged"));
  CHECK_THROWS_WITH(model_settings({"~model.attention.heads", use + "=heads",
                                    "model.attention.groups=[{type: full, heads: 3}, {type: sparse_transformer, heads: 1}]"}),
                    ContainsSubstring(use) && ContainsSubstring("'model.attention.groups.1.heads' is 1"));
}

TEST_CASE("turns over the layers of one layer, and a summary without blocks, are faults that name both keys", "[sparse_transformer]") {
  using Catch::Matchers::ContainsSubstring;
  const std::string section = "model.attention.sparse_transformer";
  const auto read = [&](const char* layers, const char* settings) {
    model_settings({"model.attention.type=sparse_transformer", std::string("model.layers=") + layers, section + "={" + settings + "}"});
  };
  CHECK_THROWS_WITH(
      read("1", "use: alternating"),
      ContainsSubstring("'" + section + ".use' is alternating, but 'model.layers' and 'model.attention.type' give it one layer"));
  CHECK_THROWS_WITH(model_settings({"model.attention.type=[full, sparse_transformer]", section + "={use: alternating}"}),
                    ContainsSubstring("give it one layer"));
  CHECK_NOTHROW(read("2", "use: alternating"));
  CHECK_THROWS_WITH(read("2", "summary: 4"),
                    ContainsSubstring("'" + section + ".summary' has no meaning with '" + section + ".pattern: strided'"));
  CHECK_NOTHROW(read("2", "summary: 8"));  // the default: a resolved config has it
  CHECK_NOTHROW(read("2", "pattern: fixed, summary: 4"));
}

TEST_CASE("more summary rows than a block has are a fault that names both keys", "[sparse_transformer]") {
  try {
    model_settings({"model.attention.sparse_transformer={pattern: fixed, stride: 4, summary: 5}"});
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::usage);
    CHECK_THAT(e.what(), Catch::Matchers::ContainsSubstring("model.attention.sparse_transformer.summary") &&
                             Catch::Matchers::ContainsSubstring("model.attention.sparse_transformer.stride"));
  }
}
