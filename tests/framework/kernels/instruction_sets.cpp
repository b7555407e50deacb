// SPDX-License-Identifier: Apache-2.0
#include "tests/framework/kernels/instruction_sets.h"

#include <hwy/highway.h>

#include <vector>

#include "tests/support/catch.h"

namespace tapeformer::test {
namespace {

void choose(decltype(hwy::SupportedTargets()) disabled) {
  hwy::DisableTargets(disabled);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

struct Restore {
  ~Restore() { choose(0); }
};

}  // namespace

void for_each_instruction_set(const std::function<void(const std::string&)>& body) {
  choose(0);
  // A lower bit is a better set.
  const auto present = hwy::SupportedTargets();
  Restore restore;
  decltype(hwy::SupportedTargets()) disabled = 0;
  for (const auto target : {HWY_AVX3, HWY_AVX2, HWY_NEON, HWY_STATIC_TARGET}) {
    if (!(present & target)) continue;
    choose(disabled);
    body(hwy::TargetName(target));
    disabled |= (target - 1) | target;
  }
}

}  // namespace tapeformer::test

TEST_CASE("at least one instruction set is tested", "[cpu]") {
  int sets = 0;
  tapeformer::test::for_each_instruction_set([&](const std::string& name) {
    CHECK(!name.empty());
    ++sets;
  });
  CHECK(sets >= 1);
}
