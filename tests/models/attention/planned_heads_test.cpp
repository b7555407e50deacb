// SPDX-License-Identifier: Apache-2.0
// The comparison with the dense oracle notices a plan that lacks one tile or whose bound is off by one.
#include "models/attention/planned_heads.h"

#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

enum class Fault { none, bound, tile };

class Band : public models::PlannedHeads {
 public:
  Band(models::HeadSettings settings, Fault fault) : PlannedHeads(std::move(settings)), fault_(fault) {}
  bool in_pattern(int32_t, int, int32_t i, int32_t j) const override { return j >= i - 70 && j <= i + 3; }

 protected:
  TilePlan plan(int32_t n, int) const override {
    std::vector<int32_t> first, end;
    for (int32_t i = 0; i < n; ++i) {
      first.push_back(i - 70);
      end.push_back(i + 4 + (fault_ == Fault::bound && i == 100 ? 1 : 0));
    }
    TilePlan whole = interval_plan(n, first, end);
    if (fault_ != Fault::tile) return whole;
    // The second query tile loses its first key tile.
    for (int32_t i = 64; i < std::min(n, 128); ++i) first[static_cast<size_t>(i)] = 64;
    return interval_plan(n, first, end);
  }

 private:
  Fault fault_;
};

double error_with(Fault fault) {
  const models::AttentionSettings s{.dim = 8, .heads = 2};
  std::vector<std::unique_ptr<models::Heads>> groups;
  groups.push_back(std::make_unique<Band>(
      models::HeadSettings{.layer = s, .layer_name = "attention", .name = "attention", .heads = 2, .head_dim = 4}, fault));
  models::HeadAttention attention({.seed = 5, .dtype = Dtype::f64}, "attention", s, models::query_key_value(), std::move(groups));
  const Packing packing({130}, {0});
  const Tensor x = random_tensor(Dtype::f64, {130, 8}, 11);
  return relative_error(Matrix(attention_output(attention, test_devices().front(), x, packing)),
                        dense_attention(attention, Matrix(x), packing));
}

}  // namespace

TEST_CASE("one tile too few or one key too many is seen", "[planned_heads]") {
  CHECK(error_with(Fault::none) <= 1e-12);
  CHECK(error_with(Fault::bound) > 1e-6);
  CHECK(error_with(Fault::tile) > 1e-6);
}
