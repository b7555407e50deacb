// SPDX-License-Identifier: Apache-2.0
// Local attention: the window counts extra keys on each side, blocks are counted from row 0, and a wide enough window is full attention.
#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

std::unique_ptr<models::Attention> make(std::vector<std::string> overrides) {
  return make_attention(attention_case("local", overrides), Dtype::f64);
}

const models::Heads& heads_of(const std::unique_ptr<models::Attention>& a) { return dynamic_cast<models::HeadAttention&>(*a).group_of(0); }

int allowed_keys(const models::Heads& a, int n, int i) {
  int count = 0;
  for (int j = 0; j < n; ++j) count += a.allowed(n, 0, i, j);
  return count;
}

std::vector<std::string> blocked(int block) {
  return {"model.attention.type=local", fmt::format("model.attention.local={{form: blocked, block: {}}}", block),
          "~model.attention.local.left", "~model.attention.local.right"};
}

}  // namespace

TEST_CASE("every form of local keeps what every attention keeps", "[local]") {
  check_attention(attention_case("band", {"model.attention.type=local"}));
  check_attention(attention_case("blocked", blocked(4)));
  check_attention(
      attention_case("own row", {"model.attention.type=local", "model.attention.local.left=0", "model.attention.local.right=0"}));
}

TEST_CASE("a band has left + right + 1 keys inside and fewer at the ends", "[local]") {
  const auto attention = make({"model.attention.type=local"});
  const models::Heads& a = heads_of(attention);
  CHECK(allowed_keys(a, 20, 10) == 6);
  CHECK(allowed_keys(a, 20, 0) == 3);
  CHECK(allowed_keys(a, 20, 19) == 4);
  CHECK_FALSE(a.allowed(20, 0, 10, 6));
  CHECK(a.allowed(20, 0, 10, 7));
  CHECK(a.allowed(20, 0, 10, 12));
  CHECK_FALSE(a.allowed(20, 0, 10, 13));
}

TEST_CASE("blocks start at row 0 and whole neighbours are seen", "[local]") {
  const auto attention = make(blocked(4));
  const models::Heads& a = heads_of(attention);
  CHECK(a.allowed(20, 0, 4, 0));
  CHECK(a.allowed(20, 0, 7, 11));
  CHECK_FALSE(a.allowed(20, 0, 3, 8));
  CHECK(allowed_keys(a, 20, 5) == 12);
  CHECK(allowed_keys(a, 9, 8) == 5);
}

TEST_CASE("a window or a block that covers the sequence is full attention", "[local]") {
  const auto full = make({"model.attention.type=full"});
  for (const int n : {1, 2, 7, 64, 65, 130})
    for (const auto& overrides :
         std::vector<std::vector<std::string>>{{"model.attention.type=local", fmt::format("model.attention.local.left={}", n - 1),
                                                fmt::format("model.attention.local.right={}", n - 1)},
                                               blocked(n)}) {
      const auto local = make(overrides);
      const Packing packing({n}, {0});
      const Tensor x = random_tensor(Dtype::f64, {n, 8}, 3);
      const TestDevice& device = test_devices().front();
      const Tensor a = attention_output(*full, device, x, packing), b = attention_output(*local, device, x, packing);
      CHECK(relative_error(Matrix(a), Matrix(b)) <= 1e-12);
    }
}

TEST_CASE("a window of n - 1 is full attention, as are wider ones, and one of n - 2 is not", "[local]") {
  const auto full = make({"model.attention.type=full"});
  const TestDevice& device = test_devices().front();
  for (const int n : {3, 64, 65, 130})
    for (const int window : {n - 2, n - 1, n, n + 1}) {
      const auto local = make({"model.attention.type=local", fmt::format("model.attention.local={{left: {0}, right: {0}}}", window)});
      const Tensor x = random_tensor(Dtype::f64, {n, 8}, 3);
      const Packing packing({n}, {0});
      INFO(n << " rows, window " << window);
      CHECK((relative_error(Matrix(attention_output(*local, device, x, packing)), Matrix(attention_output(*full, device, x, packing))) <=
             1e-12) == (window >= n - 1));
    }
}

TEST_CASE("settings of local out of range are config faults", "[local]") {
  CHECK_THROWS_AS(model_settings({"model.attention.local.block=0"}), Error);
  CHECK_THROWS_AS(model_settings({"model.attention.local.left=-1"}), Error);
  CHECK_THROWS_AS(model_settings({"model.attention.local.form=bands"}), Error);
  CHECK_THROWS_WITH(
      model_settings({"model.attention.type=local", "model.attention.local={form: blocked, left: 4, right: 4}"}),
      Catch::Matchers::ContainsSubstring("'model.attention.local.left' has no meaning with 'model.attention.local.form: blocked'") &&
          Catch::Matchers::ContainsSubstring("'model.attention.local.right' has no meaning"));
  CHECK_NOTHROW(model_settings({"model.attention.type=local", "model.attention.local.form=blocked"}));  // left is the file's
  CHECK_THROWS_WITH(
      model_settings({"model.attention.type=local", "model.attention.local.block=4"}),
      Catch::Matchers::ContainsSubstring("'model.attention.local.block' has no meaning with 'model.attention.local.form: band'"));
  CHECK_NOTHROW(model_settings({"model.attention.local.form=blocked"}));  // not chosen
}
