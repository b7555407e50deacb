// SPDX-License-Identifier: Apache-2.0
// Strided attention: residues never mix, stride 1 is a band, and a row may be left without keys.
#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

AttentionCase stride_case(int stride, int reach, bool include_self = true) {
  return attention_case(
      fmt::format("stride {} reach {} self {}", stride, reach, include_self),
      {"model.attention.type=stride", fmt::format("model.attention.stride.stride={}", stride),
       fmt::format("model.attention.stride.reach={}", reach), fmt::format("model.attention.stride.include_self={}", include_self)});
}

Matrix output(const AttentionCase& c, int32_t n) {
  const Tensor x = random_tensor(Dtype::f64, {n, 8}, 3);
  return Matrix(attention_output(*make_attention(c, Dtype::f64), test_devices().front(), x, Packing({n}, {0})));
}

}  // namespace

TEST_CASE("every form of stride keeps what every attention keeps", "[stride]") {
  check_attention(stride_case(2, 1));
  check_attention(stride_case(3, 40));
  check_attention(stride_case(7, 2, false));
  check_attention(stride_case(1000, 5));
  check_attention(stride_case(1000, 5, false));  // no row has a key
}

TEST_CASE("a row sees every stride-th row", "[stride]") {
  const auto attention = make_attention(stride_case(2, 1), Dtype::f64);
  const models::Heads& heads = dynamic_cast<models::HeadAttention&>(*attention).group_of(0);
  for (int j = 0; j < 12; ++j) CHECK(heads.allowed(12, 0, 5, j) == (j == 3 || j == 5 || j == 7));
  CHECK(attention->pairs(12) == 12 * 3 - 4);
  const auto others = make_attention(stride_case(2, 1, false), Dtype::f64);
  CHECK(others->pairs(12) == 12 * 2 - 4);
}

TEST_CASE("heads may have strides and reaches of their own", "[stride]") {
  const AttentionCase c = attention_case(
      "a stride a head", {"model.attention.type=stride", "model.attention.stride.stride=[1, 3]", "model.attention.stride.reach=[2, 1]"});
  check_attention(c);
  const auto attention = make_attention(c, Dtype::f64);
  const models::Heads& heads = dynamic_cast<models::HeadAttention&>(*attention).group_of(0);
  for (int j = 0; j < 12; ++j) {
    CHECK(heads.allowed(12, 0, 5, j) == (std::abs(j - 5) <= 2));
    CHECK(heads.allowed(12, 1, 5, j) == (j == 2 || j == 5 || j == 8));
  }
  CHECK(attention->pairs(12) == ((12 * 5 - 6) + (12 * 3 - 6)) / 2.0);

  // In a group the lists are the group's: its heads 0 and 1 are heads 1 and 2 of the layer.
  const AttentionCase grouped =
      attention_case("in a group", {"model.dim=12", "~model.attention.heads",
                                    "model.attention.groups=[{type: full, heads: 1}, {type: stride, heads: 2, stride: {stride: [1, 3], "
                                    "reach: [2, 1]}}]"});
  const auto layer = make_attention(grouped, Dtype::f64);
  const models::Heads& group = dynamic_cast<models::HeadAttention&>(*layer).group_of(1);
  for (int j = 0; j < 12; ++j) CHECK(group.allowed(12, 2, 5, j) == (j == 2 || j == 5 || j == 8));
}

TEST_CASE("stride 1 is a band and a wide one full attention", "[stride]") {
  for (const int n : {1, 2, 7, 64, 65, 130}) {
    const AttentionCase band =
        attention_case("band", {"model.attention.type=local", "model.attention.local.left=5", "model.attention.local.right=5"});
    CHECK(relative_error(output(stride_case(1, 5), n), output(band, n)) <= 1e-13);
    CHECK(relative_error(output(stride_case(1, n - 1), n), output(attention_case("full", {"model.attention.type=full"}), n)) <= 1e-13);
  }
}

TEST_CASE("what happens to one residue does not reach another", "[stride]") {
  const auto attention = make_attention(stride_case(3, 1000), Dtype::f64);
  Tensor x = random_tensor(Dtype::f64, {100, 8}, 3);
  const Packing packing({100}, {0});
  const Matrix before(attention_output(*attention, test_devices().front(), x, packing));
  x.data<double>()[31 * 8] += 1;  // residue 1
  const Matrix after(attention_output(*attention, test_devices().front(), x, packing));
  for (int64_t i = 0; i < 100; ++i)
    for (int64_t c = 0; c < 8; ++c) CHECK((before(i, c) != after(i, c)) == (i % 3 == 1));
}

TEST_CASE("settings of stride out of range are config faults", "[stride]") {
  CHECK_THROWS_AS(model_settings({"model.attention.stride.stride=0"}), Error);
  CHECK_THROWS_AS(model_settings({"model.attention.stride.reach=-1"}), Error);
  CHECK_THROWS_AS(model_settings({"model.attention.stride.stride=[1, 0]"}), Error);
  CHECK_THROWS_AS(model_settings({"model.attention.type=stride", "model.attention.stride.stride=[]"}), Error);
  CHECK_THROWS_WITH(model_settings({"model.attention.type=stride", "model.attention.stride={reach: [3, 0], include_self: false}"}),
                    Catch::Matchers::ContainsSubstring("model.attention.stride.reach") &&
                        Catch::Matchers::ContainsSubstring("model.attention.stride.include_self"));
  CHECK_THROWS_WITH(
      model_settings({"model.attention.type=stride", "model.attention.heads=2", "model.attention.stride.stride=[1, 2, 4]"}),
      Catch::Matchers::ContainsSubstring("'model.attention.stride.stride' lists 3 numbers, but 'model.attention.heads' is 2"));
}
