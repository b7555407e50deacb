// SPDX-License-Identifier: Apache-2.0
// Global attention by a sequence's first rows: who sees whom, the limits that are full attention, projections of their own.
#include <set>

#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

AttentionCase global_case(int count, bool share, const std::string& rows = "[]") {
  return attention_case(fmt::format("global {} and {} share {}", count, rows, share),
                        {"model.attention.type=global", fmt::format("model.attention.global.count={}", count),
                         "model.attention.global.rows=" + rows, fmt::format("model.attention.global.share_projections={}", share)});
}

Matrix output(const AttentionCase& c, int32_t n) {
  const Tensor x = random_tensor(Dtype::f64, {n, 8}, 3);
  return Matrix(attention_output(*make_attention(c, Dtype::f64), test_devices().front(), x, Packing({n}, {0})));
}

}  // namespace

TEST_CASE("every form of global keeps what every attention keeps", "[global]") {
  for (const int count : {1, 3, 70})
    for (const bool share : {true, false}) check_attention(global_case(count, share));
  for (const bool share : {true, false}) {
    check_attention(global_case(0, share, "[2, 64, -1]"));
    check_attention(global_case(2, share, "[1, 66, -3]"));
    check_attention(global_case(0, share, "[7]"));  // short sequences have none
  }
}

TEST_CASE("global rows see and are seen by all, the others see themselves", "[global]") {
  const auto attention = make_attention(global_case(2, true), Dtype::f64);
  const models::Heads& heads = dynamic_cast<models::HeadAttention&>(*attention).group_of(0);
  for (int i = 0; i < 9; ++i)
    for (int j = 0; j < 9; ++j) CHECK(heads.allowed(9, 0, i, j) == (i < 2 || j < 2 || i == j));
  CHECK(attention->pairs(9) == 2 * 9 + 7 * 3);
  CHECK(make_attention(global_case(2, false), Dtype::f64)->pairs(9) == 2 * 9 + 7 * 3);
  CHECK(attention->pairs(1) == 1);
}

TEST_CASE("rows adds global rows by their places, each once, where the sequence has them", "[global]") {
  for (const bool share : {true, false}) {
    const auto attention = make_attention(global_case(1, share, "[5, 5, -1, -9, 40]"), Dtype::f64);
    const models::Heads& heads = dynamic_cast<models::HeadAttention&>(*attention).group_of(0);
    const auto check = [&](int n, const std::set<int>& global) {
      int pairs = 0;
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) {
          const bool sees = global.contains(i) || global.contains(j) || i == j;
          CHECK(heads.allowed(n, 0, i, j) == sees);
          pairs += sees;
        }
      CHECK(attention->pairs(n) == pairs);
    };
    check(1, {0});
    check(5, {0, 4});
    check(6, {0, 5});
    check(9, {0, 5, 8});
    check(12, {0, 3, 5, 11});
    check(41, {0, 5, 32, 40});
  }
}

TEST_CASE("learned rows that other layers put in front are not the sequence's first rows", "[global]") {
  for (const std::string type : {"global", "longformer"})
    for (const bool share : {true, false}) {
      AttentionCase c =
          attention_case(fmt::format("{} after learned rows, share {}", type, share),
                         {fmt::format("model.attention.type=[global_external, {}]", type), "model.attention.global_external.count=3",
                          fmt::format("model.attention.{}={{count: 1, rows: [2, -1], share_projections: {}}}", type, share),
                          "model.attention.longformer.left=1", "model.attention.longformer.right=1"});
      c.layer = 1;
      check_attention(c);
      const auto attention = make_attention(c, Dtype::f64);
      const models::Heads& heads = dynamic_cast<models::HeadAttention&>(*attention).group_of(0);
      // 3 learned rows and 6 of the sequence: its rows 0, 2 and 5 are global.
      for (int j = 0; j < 9; ++j) {
        CHECK(heads.allowed(9, 0, 7, j) == (j == 3 || j == 5 || j == 7 || j == 8 || (type == "longformer" && j == 6)));
        CHECK(heads.allowed(9, 0, 5, j));
      }
    }
}

TEST_CASE("a global row's probabilities are dropped by its place, with projections of its own too", "[global]") {
  const auto trained = [](bool share) {
    const auto attention = make_attention(global_case(1, share, "[4, -1]"), Dtype::f64, 0.4);
    Context context{.on = test_devices().front().on, .mode = Mode::train, .seed = 1, .step = 3, .dtype = Dtype::f64};
    const Packing packing({70, 9}, {5, 6});
    const Tensor x = random_tensor(Dtype::f64, {79, 8}, 3);
    return Matrix(attention->forward(context, {x, no_node}, packing, {.residual = {Tensor::zeros(Dtype::f64, {79, 8}), no_node}}).x.value);
  };
  CHECK(relative_error(trained(false), trained(true)) <= 1e-13);  // their own projections start as copies
}

TEST_CASE("the first rows named one by one are the first rows", "[global]") {
  for (const bool share : {true, false})
    for (const int n : {1, 2, 3, 70})
      CHECK(output(global_case(0, share, "[2, 0, 1]"), n).values == output(global_case(3, share), n).values);
}

TEST_CASE("with every row global and shared projections it is full attention", "[global]") {
  for (const int n : {1, 2, 64, 65, 130})
    CHECK(relative_error(output(global_case(n, true), n), output(attention_case("full", {"model.attention.type=full"}), n)) <= 1e-13);
}

TEST_CASE("own projections start as copies, so a new model gives the same with and without them", "[global]") {
  for (const int n : {1, 2, 70}) CHECK(relative_error(output(global_case(3, false), n), output(global_case(3, true), n)) <= 1e-13);
  const auto attention = make_attention(global_case(3, false), Dtype::f64);
  nn::ModelState state;
  attention->visit(state);
  std::map<std::string, Matrix> parameters;
  for (const Parameter* p : state.parameters) parameters[p->name] = Matrix(p->value);
  for (const std::string part : {"query", "key", "value"})
    CHECK(parameters.at("attention.global_" + part + ".weight").values == parameters.at("attention." + part + ".weight").values);
  // In a group they are the rows of its heads.
  const auto grouped =
      make_attention(attention_case("group", {"~model.attention.heads",
                                              "model.attention.groups=[{type: full}, {type: global, global: {share_projections: "
                                              "false}}]"}),
                     Dtype::f64);
  nn::ModelState of_group;
  grouped->visit(of_group);
  for (const Parameter* p : of_group.parameters)
    if (p->name == "attention.groups.1.global_query.weight") {
      const Matrix own(p->value), &whole = parameters.at("attention.query.weight");
      CHECK(std::equal(own.values.begin(), own.values.end(), whole.values.begin() + 4 * 8));
      return;
    }
  FAIL("attention.groups.1.global_query.weight is missing");
}

TEST_CASE("a folded BatchNorm goes into the own projections too", "[global]") {
  const data::Description d = token_description();
  const auto model = models::make_model(
      {.seed = 1, .dtype = Dtype::f64},
      model_settings({"model.norm.type=batch_norm", "model.attention.type=global", "model.attention.global.share_projections=false"}), d);
  const auto run = [&](Mode mode, uint32_t first) {
    Context context{.on = test_devices().front().on, .mode = mode, .seed = 2, .step = 1, .dtype = Dtype::f64};
    return Matrix(model->forward(context, token_batch(d, {30, 4, 50}, first)).value);
  };
  for (uint32_t i = 0; i < 20; ++i) run(Mode::train, 3 * i);
  const Matrix before = run(Mode::evaluate, 100);
  CHECK(model->prepare_inference() == 4);
  CHECK(relative_error(run(Mode::evaluate, 100), before) <= 1e-10);
}

TEST_CASE("settings of global out of range are config faults", "[global]") {
  CHECK_THROWS_AS(model_settings({"model.attention.type=global", "model.attention.global.count=0"}), Error);
  CHECK_THROWS_AS(model_settings({"model.attention.type=global", "model.attention.global.rows=[1.5]"}), Error);
  CHECK_THROWS_AS(model_settings({"model.attention.type=global", "model.attention.global.count=-1"}), Error);
  CHECK_NOTHROW(model_settings({"model.attention.type=global", "model.attention.global={count: 0, rows: [-1]}"}));
}
