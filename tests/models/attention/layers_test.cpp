// SPDX-License-Identifier: Apache-2.0
// One word for all layers, one a layer, or groups of heads; what contradicts itself is a fault that names both keys.
#include "models/attention/layers.h"

#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

constexpr const char* no_heads = "~model.attention.heads";

// The message is in one config error, with each of the words.
void check_fault(const std::vector<std::string>& overrides, const std::vector<std::string>& words) {
  try {
    model_settings(overrides);
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::usage);
    for (const std::string& word : words) CHECK_THAT(e.what(), Catch::Matchers::ContainsSubstring(word));
  }
}

std::vector<std::string> variants_of(const models::AttentionLayers& attention, size_t layer) {
  std::vector<std::string> names;
  for (const auto& group : attention.layers.at(layer)) names.emplace_back(group.variant->name);
  return names;
}

}  // namespace

TEST_CASE("one word, or one a layer", "[layers]") {
  const auto same = model_settings({"model.attention.type=local"}).attention;
  CHECK(variants_of(same, 0) == std::vector<std::string>{"local"});
  CHECK(variants_of(same, 1) == std::vector<std::string>{"local"});
  const auto each = model_settings({"model.attention.type=[local, full]"}).attention;
  CHECK(variants_of(each, 0) == std::vector<std::string>{"local"});
  CHECK(variants_of(each, 1) == std::vector<std::string>{"full"});
  check_fault({"model.attention.type=[local, full, full]"}, {"model.attention.type", "model.layers"});
}

TEST_CASE("groups of heads", "[layers]") {
  const auto attention =
      model_settings({no_heads, "model.attention.groups=[{type: local, heads: 3, local: {left: 1}}, {type: full}]"}).attention;
  CHECK(attention.heads == 4);
  for (const size_t layer : {0u, 1u}) CHECK(variants_of(attention, layer) == std::vector<std::string>{"local", "full"});
  check_fault({"model.attention.groups=[{type: full}]"}, {"model.attention.groups", "model.attention.heads"});
  check_fault({no_heads, "model.attention.type=full", "model.attention.groups=[{type: full}]"},
              {"model.attention.groups", "model.attention.type"});
  check_fault({no_heads, "model.attention.groups=[{type: full, heads: 3}]"}, {"model.attention.groups", "model.dim"});
  check_fault({no_heads, "model.attention.groups=[{type: fool}]"}, {"model.attention.groups.0.type", "full"});
  check_fault({no_heads, "model.attention.groups=[{type: full, local: {left: 1}}]"}, {"unknown key 'local'", "model.attention.groups.0"});
  check_fault({no_heads, "model.attention.groups=[{type: local, local: {left: -1}}]"}, {"model.attention.groups.0.local.left"});
  check_fault({no_heads, "model.attention.groups=[full]"}, {"model.attention.groups.0", "section"});
  check_fault({no_heads, "model.attention.groups=full"}, {"model.attention.groups", "a list of sections"});
  check_fault({no_heads, "model.attention.dropout=0.1", "model.attention.groups=[{type: full}, {type: linear}]"},
              {"model.attention.dropout", "model.attention.groups.1.type"});
  CHECK(model_settings({"model.attention.groups=[]"}).attention.heads == 2);
}

TEST_CASE("A17: temperatures and scales that leave no number are refused with the key and its range", "[layers]") {
  using Catch::Matchers::ContainsSubstring;
  for (const std::string key : {"sinkhorn.temperature", "rfa.temperature", "reformer.logit_scale", "routing.logit_scale"})
    for (const char* value : {"0", "-1", ".nan", "1e-40", "1e40", ".inf"})
      CHECK_THROWS_WITH(model_settings({fmt::format("model.attention.{}={}", key, value)}),
                        ContainsSubstring("'model.attention." + key + "'") && ContainsSubstring("between 0.001 and 1000"));
}

TEST_CASE("a max_length below that of the data is a fault of the config that names both", "[layers]") {
  using Catch::Matchers::ContainsSubstring;
  const auto read = [](const std::string& attention, int64_t max_length) {
    config::Document document = config::Document::from_text(fmt::format("model: {{attention: {{{}}}}}\n", attention), "test.yaml", {});
    models::read_model_settings(document.root(), max_length);
    document.finish();
  };
  for (const std::string variant : {"linformer", "mixer", "synthesizer", "sinkhorn", "cosformer", "fnet"}) {
    INFO(variant);
    const std::string own = fmt::format("{}: {{max_length: 299{}}}", variant, variant == "fnet" ? ", mode: grid" : "");
    CHECK_THROWS_WITH(read(fmt::format("type: {}, {}", variant, own), 300),
                      ContainsSubstring(fmt::format("'model.attention.{}.max_length' is 299", variant)) && ContainsSubstring("'data.max_length' 300"));
    CHECK_NOTHROW(read(fmt::format("type: {}, {}", variant, own), 299));
    CHECK_NOTHROW(read(fmt::format("type: {}, {}", variant, own), 0));  // the data may say more
    CHECK_NOTHROW(read(own, 300));                                      // not chosen
  }
  CHECK_THROWS_WITH(read("type: [mixer, global_external], mixer: {max_length: 300}", 300), ContainsSubstring("16 extra rows"));
  // Exact transforms have no grid, and scores from queries and keys no weights by places.
  CHECK_THROWS_WITH(read("type: fnet, fnet: {max_length: 299}", 300),
                    ContainsSubstring("'model.attention.fnet.max_length' has no meaning with 'model.attention.fnet.mode: exact'"));
}

TEST_CASE("a printed config with groups reads back as the same", "[layers]") {
  for (const char* groups : {"[]", "[{type: local, heads: 3, local: {left: 1}}, {type: full}]"}) {
    config::Document first =
        config::Document::from_text(fmt::format("model: {{dim: 8, attention: {{groups: {}}}}}\n", groups), "first.yaml", {});
    models::read_model_settings(first.root());
    first.finish();
    config::Document again = config::Document::from_text(first.resolved(), "again.yaml", {});
    const models::ModelSettings s = models::read_model_settings(again.root());
    again.finish();
    CHECK(again.values() == first.values());
    CHECK(s.attention.heads == 4);
  }
}

TEST_CASE("a group's own section stands in for the one outside", "[layers]") {
  const auto attention = make_attention(
      attention_case("groups", {no_heads, "model.attention.groups=[{type: local, local: {left: 1, right: 0}}, {type: local}]"}),
      Dtype::f64);
  const auto& heads = dynamic_cast<models::HeadAttention&>(*attention);
  CHECK_FALSE(heads.group_of(0).allowed(9, 0, 5, 3));
  CHECK(heads.group_of(0).allowed(9, 0, 5, 4));
  CHECK(heads.group_of(1).allowed(9, 1, 5, 2));  // the fixture has left: 3
  CHECK(attention->pairs(2) == (3 + 4) / 2.0);
}

TEST_CASE("a group computes what the same heads compute without groups", "[layers]") {
  const auto whole = make_attention(attention_case("full", {"model.attention.type=full", "model.attention.heads=4"}), Dtype::f64, 0.4);
  const auto grouped = make_attention(
      attention_case("groups", {no_heads, "model.attention.groups=[{type: full}, {type: full, heads: 2}, {type: full}]"}), Dtype::f64, 0.4);
  const Packing packing({7, 1, 65}, {0, 1, 2});
  const Tensor x = random_tensor(Dtype::f64, {packing.rows(), 8}, 3);
  // With dropout: a head draws by its number in the layer.
  const auto output = [&](models::Attention& attention) {
    Context context{.on = test_devices().front().on, .mode = Mode::train, .seed = 3, .step = 2, .dtype = Dtype::f64};
    return Matrix(attention.forward(context, {x, no_node}, packing, {.residual = {Tensor::zeros(Dtype::f64, x.shape()), no_node}}).x.value);
  };
  CHECK(relative_error(output(*grouped), output(*whole)) <= 1e-13);
  nn::ModelState a, b;
  whole->visit(a);
  grouped->visit(b);
  REQUIRE(a.parameters.size() == b.parameters.size());
  for (size_t i = 0; i < a.parameters.size(); ++i) CHECK(a.parameters[i]->name == b.parameters[i]->name);
}

TEST_CASE("weights are those of the oracle", "[layers]") {
  for (const char* type : {"full", "local", "linear"}) {
    const AttentionCase c = attention_case(type, {fmt::format("model.attention.type={}", type)});
    const auto attention = make_attention(c, Dtype::f64);
    const Packing packing({11}, {0});
    const Tensor x = random_tensor(Dtype::f64, {11, 8}, 4);
    Context context{.on = test_devices().front().on, .dtype = Dtype::f64};
    const Matrix w(attention->weights(context, {x, no_node}, packing, {}));
    REQUIRE(w.rows == 22);
    const models::Heads& heads = dynamic_cast<models::HeadAttention&>(*attention).group_of(0);
    for (int h = 0; h < 2; ++h)
      for (int i = 0; i < 11; ++i) {
        double sum = 0;
        for (int j = 0; j < 11; ++j) {
          sum += w(h * 11 + i, j);
          CHECK((w(h * 11 + i, j) != 0) == heads.allowed(11, h, i, j));
        }
        CHECK(std::abs(sum - 1) <= 1e-5);
      }
  }
}
