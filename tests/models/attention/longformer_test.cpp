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
  check_attention(longformer_case(0, 1, 1, false));  // a window and nothing else
  check_attention(longformer_case(66, 0, 70, false));
  check_attention(longformer_case(1, 1 << 30, 1 << 30, true));
  for (const bool share : {true, false})
    check_attention(attention_case(fmt::format("longformer rows share {}", share),
                                   {"model.attention.type=longformer",
                                    fmt::format("model.attention.longformer={{count: 0, rows: [3, -1], left: 2, right: 1, "
                                                "share_projections: {}}}", share)}));
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
    CHECK(relative_error(output(longformer_case(0, 3, 4, false), n), output(band, n)) <= 1e-13);
    CHECK(relative_error(output(longformer_case(1, n - 1, n - 1, true), n),
                         output(attention_case("full", {"model.attention.type=full"}), n)) <= 1e-13);
  }
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
