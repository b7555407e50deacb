// SPDX-License-Identifier: Apache-2.0
// Softmax attention over any set of pairs (masks, row lists, plans of heads, several parts, keys of another packing) against the dense
// formula over the pairs written out, on every device; and what a wrong plan does to it.
#include <algorithm>
#include <cmath>

#include "framework/core/error.h"
#include "framework/core/random.h"
#include "tests/framework/ops/attention_pairs.h"
#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

const std::vector<int32_t> lengths{0, 1, 63, 64, 65, 2, 129};

OpCase case_of(const AttentionPairs& pairs) {
  OpCase c;
  c.mode = Mode::train;
  c.entries = 5;
  const int64_t columns = pairs.form.heads * pairs.form.head_dim;
  c.inputs.push_back(random_tensor(Dtype::f64, {pairs.queries.rows(), columns}, 1));
  for (uint32_t i = 2; i <= 3; ++i) c.inputs.push_back(random_tensor(Dtype::f64, {pairs.keys.rows(), columns}, i));
  c.op = [&pairs](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    if (pairs.form.queries != pairs.form.keys)
      return ops::cross_attention(ctx, in[0], in[1], in[2], pairs.queries, pairs.keys, pairs.parts.front(), pairs.settings());
    if (pairs.parts.size() == 1) return ops::attention(ctx, in[0], in[1], in[2], pairs.queries, pairs.parts.front(), pairs.settings());
    return ops::attention(ctx, in[0], in[1], in[2], pairs.queries, pairs.parts, pairs.settings());
  };
  c.oracle = [&pairs](const std::vector<Matrix>& in, const std::vector<Matrix>&) { return pairs.oracle(in[0], in[1], in[2]); };
  return c;
}

struct Result {
  Matrix o;
  std::vector<Matrix> gradients;  // of sum(o^2 / 2)
};

Result run(const TestDevice& device, const AttentionPairs& pairs, const std::vector<ops::AttentionPart>& parts) {
  Tape tape(device.on);
  Context ctx = test_context(device, &tape, Mode::train);
  Result out;
  out.gradients.resize(3);
  std::vector<Variable> in;
  for (uint32_t i = 0; i < 3; ++i) {
    const Tensor x =
        random_tensor(Dtype::f64, {pairs.queries.rows(), pairs.form.heads * pairs.form.head_dim}, i + 1).converted(device.dtype);
    in.push_back({x, tape.record("input", [&out, i](Tape&, const Tensor& g) { out.gradients[i] = Matrix(g); })});
  }
  const Variable o = ops::attention(ctx, in[0], in[1], in[2], pairs.queries, parts, pairs.settings());
  out.o = Matrix(o.value);
  const Variable sum{Tensor::zeros(device.dtype, {1}),
                     tape.record("sum", [&](Tape& t, const Tensor&) { t.add_gradient(o.node, o.value); })};
  tape.backward(sum);
  return out;
}

double distance(const Matrix& a, const Matrix& b) {
  double worst = 0;
  for (size_t i = 0; i < a.values.size(); ++i) worst = std::max(worst, std::abs(a.values[i] - b.values[i]));
  return worst;
}

}  // namespace

TEST_CASE("attention over masks, row lists and parts equals the dense formula and differences", "[attention]") {
  const auto parts = GENERATE(1, 3);
  const auto listed = GENERATE(false, true);
  const auto dropout = GENERATE(0.0, 0.3);
  INFO(parts << " parts, listed " << listed << ", dropout " << dropout);
  const AttentionPairs pairs({.queries = lengths, .keys = lengths, .parts = parts, .listed = listed, .dropout = dropout});
  check_op(case_of(pairs));
}

TEST_CASE("attention over pairs holds for sparse and dense masks, all head sizes and shared plans", "[attention]") {
  const auto head_dim = GENERATE(1, 5, 16, 17);
  const auto density = GENERATE(0.02, 1.0);
  const auto for_each_head = GENERATE(false, true);
  INFO("head_dim " << head_dim << " density " << density << " for each head " << for_each_head);
  const AttentionPairs pairs({.queries = {65, 7, 130},
                              .keys = {65, 7, 130},
                              .heads = 2,
                              .head_dim = head_dim,
                              .parts = 2,
                              .density = density,
                              .for_each_head = for_each_head,
                              .listed = head_dim % 2 == 1,
                              .seed = 5});
  check_op(case_of(pairs));
}

TEST_CASE("cross attention equals the dense formula and differences", "[attention]") {
  const auto listed = GENERATE(false, true);
  const auto dropout = GENERATE(0.0, 0.3);
  INFO("listed " << listed << ", dropout " << dropout);
  const AttentionPairs pairs({.queries = {0, 1, 64, 65, 3, 129, 5},
                              .keys = {3, 65, 1, 64, 0, 20, 200},
                              .density = 0.5,
                              .listed = listed,
                              .dropout = dropout,
                              .seed = 2});
  check_op(case_of(pairs));
}

TEST_CASE("the order of the parts and how the pairs are dealt to them do not matter", "[attention]") {
  AttentionPairs pairs({.queries = lengths, .keys = lengths, .parts = 4, .listed = true, .dropout = 0.2, .seed = 4});
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    const Result want = run(device, pairs, pairs.parts);
    auto reversed = pairs.parts;
    std::ranges::reverse(reversed);
    const Result got = run(device, pairs, reversed);
    CHECK(distance(want.o, got.o) < 10 * device.tolerance);
    for (size_t i = 0; i < 3; ++i) CHECK(distance(want.gradients[i], got.gradients[i]) < 100 * device.tolerance);
  }
}

TEST_CASE("calls over disjoint rows add up to the call over all of them", "[attention]") {
  const Packing packing({130}, {4});
  const auto plan_of = [](int32_t first, int32_t end) {
    TilePlan plan = full_plan(end - first, 130);
    for (int32_t i = first; i < end; ++i) plan.query_rows.push_back(i);
    return std::make_shared<const TilePlan>(plan);
  };
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    Context ctx = test_context(device, nullptr);
    const Variable x{random_tensor(Dtype::f64, {130, 12}, 1).converted(device.dtype)};
    const Matrix whole(ops::attention(ctx, x, packing, {plan_of(0, 130)}, {.heads = 2, .name = "a"}).value);
    const Matrix low(ops::attention(ctx, x, packing, {plan_of(0, 70)}, {.heads = 2, .name = "a"}).value);
    const Matrix high(ops::attention(ctx, x, packing, {plan_of(70, 130)}, {.heads = 2, .name = "a"}).value);
    for (size_t i = 0; i < whole.values.size(); ++i) {
      CHECK(std::abs(whole.values[i] - low.values[i] - high.values[i]) < device.tolerance);
      CHECK((i < 70 * 4 ? high : low).values[i] == 0);
    }
  }
}

TEST_CASE("a wrong plan is seen in the values or in the gradients", "[attention]") {
  AttentionPairs pairs({.queries = {130}, .keys = {130}, .heads = 1, .head_dim = 4, .density = 0.3, .for_each_head = false, .seed = 3});
  const TilePlan right = *pairs.parts[0][0];
  REQUIRE(right.by_query.entries[4].predicate == Predicate::mask);
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    const Result want = run(device, pairs, pairs.parts);
    const auto with = [&](const TilePlan& plan) {
      return run(device, pairs, std::vector<ops::AttentionPart>{{std::make_shared<const TilePlan>(plan)}});
    };
    TilePlan flipped = right;  // one bit of one mask
    flipped.masks[static_cast<size_t>(right.by_query.entries[4].mask)].keys[10] ^= uint64_t{1} << 33;
    CHECK(distance(want.o, with(flipped).o) > 1e-3);
    TilePlan dropped = right;  // the last tile of the middle query tile
    dropped.by_query.entries.erase(dropped.by_query.entries.begin() + dropped.by_query.begin[2] - 1);
    for (size_t t = 2; t < dropped.by_query.begin.size(); ++t) --dropped.by_query.begin[t];
    CHECK(distance(want.o, with(dropped).o) > 1e-3);
    TilePlan unseen = right;  // the same, for the backward only
    unseen.by_key.entries.erase(unseen.by_key.entries.begin() + unseen.by_key.begin[2] - 1);
    for (size_t t = 2; t < unseen.by_key.begin.size(); ++t) --unseen.by_key.begin[t];
    const Result got = with(unseen);
    CHECK(distance(want.o, got.o) == 0);
    for (size_t i = 1; i < 3; ++i) CHECK(distance(want.gradients[i], got.gradients[i]) > 1e-3);  // of k and v
    TilePlan moved = right;                                                                      // two rows change places
    for (int32_t i = 0; i < 130; ++i) moved.key_rows.push_back(i == 7 ? 8 : i == 8 ? 7 : i);
    CHECK(distance(want.o, with(moved).o) > 1e-3);
  }
}

TEST_CASE("an interval that is longer by one key is seen", "[attention]") {
  AttentionPairs pairs({.queries = {130}, .keys = {130}, .heads = 1, .head_dim = 4, .for_each_head = false});
  const auto band = [](int32_t longer) {
    std::vector<int32_t> first, end;
    for (int32_t i = 0; i < 130; ++i) first.push_back(i - 9), end.push_back(i + 10 + (i == 66 ? longer : 0));
    return std::vector<ops::AttentionPart>{{std::make_shared<const TilePlan>(interval_plan(130, first, end))}};
  };
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    CHECK(distance(run(device, pairs, band(0)).o, run(device, pairs, band(1)).o) > 1e-3);
  }
}

TEST_CASE("a repeated pair would count twice: parts have to be disjoint", "[attention]") {
  AttentionPairs pairs({.queries = {20}, .keys = {20}, .heads = 1, .head_dim = 4, .for_each_head = false});
  const TestDevice& device = test_devices().front();
  const ops::AttentionPart part = pairs.parts.front();
  CHECK(distance(run(device, pairs, {part}).o, run(device, pairs, {part, part}).o) < 1e-12);  // every pair twice is the same softmax
  const ops::AttentionPart all{std::make_shared<const TilePlan>(full_plan(20, 20))};
  CHECK(distance(run(device, pairs, {all}).o, run(device, pairs, {all, part}).o) > 1e-3);
}

TEST_CASE("attention refuses row lists and parts that do not fit", "[attention]") {
  using Catch::Matchers::ContainsSubstring;
  Context ctx = test_context(test_devices().front(), nullptr);
  const Packing packing({3, 2}, {0, 1}), other({3}, {0});
  const Variable x{Tensor::zeros(Dtype::f64, {5, 6})}, y{Tensor::zeros(Dtype::f64, {3, 6})};
  const ops::AttentionSettings settings{.heads = 2, .name = "a"};
  const auto shared = [](TilePlan plan) { return std::make_shared<const TilePlan>(std::move(plan)); };
  const PlanPointer second = shared(full_plan(2, 2));
  const auto listed = [&](std::vector<int32_t> query_rows, std::vector<int32_t> key_rows) {
    TilePlan plan = full_plan(2, 2);
    plan.query_rows = std::move(query_rows);
    plan.key_rows = std::move(key_rows);
    return ops::AttentionPart{shared(plan), second};
  };
  const auto call = [&](const ops::AttentionPart& part) { return ops::attention(ctx, x, x, x, packing, part, settings); };
  CHECK_NOTHROW(call(listed({2, 0}, {1, 2})));
  CHECK_THROWS_WITH(call(listed({2, 3}, {1, 2})), ContainsSubstring("sequence 0 lists row 3 of queries"));
  CHECK_THROWS_WITH(call(listed({2, 1}, {-1, 2})), ContainsSubstring("sequence 0 lists row -1 of keys"));
  CHECK_THROWS_WITH(call(listed({2, 1}, {2, 2})), ContainsSubstring("row 2 of keys twice"));
  CHECK_THROWS_WITH(call(listed({2, 1, 0}, {2, 1})), ContainsSubstring("2 queries and lists 3 rows"));
  CHECK_THROWS_WITH(call({second, second}), ContainsSubstring("sequence 0 has 2 queries"));
  CHECK_THROWS_WITH(call({nullptr, second}), ContainsSubstring("sequence 0 has no plan"));
  CHECK_THROWS_WITH(call({second, second, second}), ContainsSubstring("3 plans for 2 sequences of 2 heads"));
  CHECK_THROWS_WITH(ops::attention(ctx, x, x, x, packing, std::vector<ops::AttentionPart>{}, settings), ContainsSubstring("no part"));
  CHECK_THROWS_WITH(ops::cross_attention(ctx, x, y, y, packing, other, {second, second}, settings),
                    ContainsSubstring("2 sequences of queries and 1"));
  CHECK_THROWS_WITH(ops::cross_attention(ctx, y, x, y, other, packing, {second}, settings), ContainsSubstring("v is"));
}

TEST_CASE("keys may have places of their own in dropout's draws", "[attention]") {
  const int n = 70;
  const Packing packing({n}, {4});
  TilePlan plan = full_plan(n, n);
  for (int j = 0; j < n; ++j) plan.key_places.push_back(j * 37 % 50);
  const ops::AttentionPart part{std::make_shared<const TilePlan>(plan)};
  for (const TestDevice& device : test_devices()) {
    Context ctx = test_context(device, nullptr, Mode::train);
    const Tensor zeros = Tensor::zeros(device.dtype, {n, 1}), v = random_tensor(device.dtype, {n, 1}, 3);
    const Matrix o(ops::attention(ctx, {zeros}, {zeros}, {v}, packing, part, {.heads = 1, .scale = 1, .dropout = 0.3, .name = "layer"}).value);
    const Draw draw{random_key(7, "attention_dropout", "layer", 0), 4, 3};
    Matrix expected(n, 1), values(v);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j)
        if (draw.word(static_cast<uint32_t>(i), static_cast<uint32_t>(j * 37 % 50)) >= dropout_threshold(0.3))
          expected(i, 0) += values(j, 0) / 0.7 / n;
    CHECK(relative_error(o, expected) <= device.tolerance);
  }
  plan.key_places.pop_back();
  Context ctx = test_context(test_devices().front(), nullptr);
  const Tensor zeros = Tensor::zeros(Dtype::f64, {n, 1});
  CHECK_THROWS_AS(ops::attention(ctx, {zeros}, {zeros}, {zeros}, packing, ops::AttentionPart{std::make_shared<const TilePlan>(plan)}, {}), Error);
}

TEST_CASE("gathered keys and queries drop by the places that they are given", "[attention]") {
  const int32_t n = 70;
  const Packing packing({n}, {4});
  std::vector<int32_t> order;
  for (int32_t i = 0; i < n; ++i) order.push_back(i * 37 % n);
  const auto plain = std::make_shared<const TilePlan>(full_plan(n, n));
  TilePlan named = full_plan(n, n);
  named.query_places = named.key_places = order;
  const ops::AttentionPart gathered{std::make_shared<const TilePlan>(named)};
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    Context ctx = test_context(device, nullptr, Mode::train);
    const Tensor x = random_tensor(Dtype::f64, {n, 3 * 4}, 1).converted(device.dtype);
    Tensor moved(device.dtype, x.shape());
    for (int32_t i = 0; i < n; ++i) moved.rows(i, 1).copy_from(x.rows(order[static_cast<size_t>(i)], 1));
    const ops::AttentionSettings settings{.dropout = 0.4, .name = "a"};
    const Matrix o(ops::attention(ctx, {x}, packing, ops::AttentionPart{plain}, settings).value);
    const Matrix p(ops::attention(ctx, {moved}, packing, gathered, settings).value);
    Matrix expected(n, 4);
    for (int32_t i = 0; i < n; ++i)
      for (int c = 0; c < 4; ++c) expected(i, c) = o(order[static_cast<size_t>(i)], c);
    CHECK(relative_error(p, expected) <= 10 * device.tolerance);
  }
  named.key_places.pop_back();
  Context ctx = test_context(test_devices().front(), nullptr);
  CHECK_THROWS_WITH(ops::attention(ctx, {Tensor::zeros(Dtype::f64, {n, 12})}, packing,
                                   ops::AttentionPart{std::make_shared<const TilePlan>(named)}, {.name = "a"}),
                    Catch::Matchers::ContainsSubstring("69 places"));
}
