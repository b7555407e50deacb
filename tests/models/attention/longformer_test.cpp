// SPDX-License-Identifier: Apache-2.0
// Longformer: window and global rows, each pair once; the limits that are full or local attention.
#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

AttentionCase longformer_case(int count, int left, int right, bool share) {
  return attention_case(
      fmt::format("longformer {} window {} {} share {}", count, left, right, share),
      {"model.attention.type=longformer",
       fmt::format("model.attention.longformer={{count: {}, left: {}, right: {}, share_projections: {}}}", count, left, right, share)});
}

Matrix output(const AttentionCase& c, int32_t n) {
  const Tensor x = random_tensor(Dtype::f64, {n, 8}, 3);
  return Matrix(attention_output(*make_attention(c, Dtype::f64), test_devices().front(), x, Packing({n}, {0})));
}

}  // namespace

TEST_CASE("every form of longformer keeps what every attention keeps", "[longformer]") {
  check_attention(longformer_case(1, 2, 2, false));
  check_attention(longformer_case(3, 5, 0, true));
  check_attention(longformer_case(0, 1, 1, true));  // a window and nothing else
  check_attention(longformer_case(66, 0, 70, false));
  check_attention(longformer_case(1, 1 << 30, 1 << 30, true));
  for (const bool share : {true, false})
    check_attention(attention_case(fmt::format("longformer rows share {}", share),
                                   {"model.attention.type=longformer",
                                    fmt::format("model.attention.longformer={{count: 0, rows: [3, -1], left: 2, right: 1, "
                                                "share_projections: {}}}", share)}));
}

TEST_CASE("windows of heads are dilated, and global keys in them count once", "[longformer]") {
  for (const bool share : {true, false})
    for (const char* stride : {"3", "[1, 2]", "[5, 1]", "200"})
      for (const bool causal : {true, false}) {
        const AttentionCase c = attention_case(
            fmt::format("longformer stride {} share {} causal {}", stride, share, causal),
            {"model.attention.type=longformer", fmt::format("model.attention.causal={}", causal),
             fmt::format("model.attention.longformer={{count: 2, rows: [9, 40], left: 4, {}stride: {}, share_projections: {}}}",
                         causal ? "" : "right: 3, ", stride, share)});
        check_attention(c);
        check_dropout(c);
        const auto attention = make_attention(c, Dtype::f64);
        double pairs = 0;
        for (int h = 0; h < 2; ++h)
          for (int i = 0; i < 90; ++i)
            for (int j = 0; j < 90; ++j) pairs += dynamic_cast<models::HeadAttention&>(*attention).group_of(h).allowed(90, h, i, j);
        CHECK(attention->pairs(90) == pairs / 2);
      }
  const auto attention = make_attention(attention_case("dilated", {"model.attention.type=longformer",
                                                                   "model.attention.longformer={count: 0, left: 2, right: 1, stride: 3, "
                                                                   "share_projections: true}"}),
                                        Dtype::f64);
  for (int j = 0; j < 20; ++j)
    CHECK(dynamic_cast<models::HeadAttention&>(*attention).group_of(0).allowed(20, 0, 10, j) == (j == 4 || j == 7 || j == 10 || j == 13));
  CHECK_THROWS_WITH(
      model_settings({"model.attention.type=longformer", "model.attention.longformer.stride=[1, 2, 4]"}),
      Catch::Matchers::ContainsSubstring("'model.attention.longformer.stride' lists 3 numbers, but 'model.attention.heads' is 2"));
}

TEST_CASE("a key that is global and in the window counts once", "[longformer]") {
  const auto attention = make_attention(longformer_case(2, 3, 3, true), Dtype::f64);
  const models::Heads& heads = dynamic_cast<models::HeadAttention&>(*attention).group_of(0);
  int pairs = 0;
  for (int i = 0; i < 12; ++i)
    for (int j = 0; j < 12; ++j) pairs += heads.allowed(12, 0, i, j);
  CHECK(attention->pairs(12) == pairs);
}

TEST_CASE("without global rows it is local, with a wide window and shared projections full attention", "[longformer]") {
  for (const int n : {1, 2, 64, 65, 130}) {
    const AttentionCase band =
        attention_case("band", {"model.attention.type=local", "model.attention.local.left=3", "model.attention.local.right=4"});
    CHECK(relative_error(output(longformer_case(0, 3, 4, true), n), output(band, n)) <= 1e-13);
    CHECK(relative_error(output(longformer_case(1, n - 1, n - 1, true), n),
                         output(attention_case("full", {"model.attention.type=full"}), n)) <= 1e-13);
  }
}

TEST_CASE("projections that no row would use are a fault that names the keys", "[longformer]") {
  CHECK_THROWS_WITH(model_settings({"model.attention.type=longformer", "model.attention.longformer.count=0"}),
                    Catch::Matchers::ContainsSubstring("model.attention.longformer.share_projections") &&
                        Catch::Matchers::ContainsSubstring("model.attention.longformer.count"));
}

TEST_CASE("the layer's keys and values get no gradient from global rows, the global ones none from others", "[longformer]") {
  // One global row and nothing but it: only its own projections matter.
  const AttentionCase c = longformer_case(1, 0, 0, false);
  const auto attention = make_attention(c, Dtype::f64);
  nn::ModelState state;
  attention->visit(state);
  const Packing packing({1}, {0});
  const Tensor x = random_tensor(Dtype::f64, {1, 8}, 3);
  Tape tape(test_devices().front().on);
  Context context{.on = test_devices().front().on, .tape = &tape, .mode = Mode::train, .seed = 1, .step = 1, .dtype = Dtype::f64};
  const Variable y = attention->forward(context, {x, no_node}, packing, {.residual = {Tensor::zeros(Dtype::f64, {1, 8}), no_node}}).x;
  tape.backward(y);
  for (const Parameter* p : state.parameters) {
    double sum = 0;
    for (const double g : p->gradient.span<double>()) sum += std::abs(g);
    INFO(p->name);
    if (p->name == "attention.value.weight" || p->name == "attention.value.bias") CHECK(sum == 0);
    if (p->name == "attention.global_value.weight" || p->name == "attention.global_value.bias") CHECK(sum > 0);
  }
}
