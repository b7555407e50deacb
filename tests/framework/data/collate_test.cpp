// SPDX-License-Identifier: Apache-2.0
#include "framework/core/error.h"
#include "framework/data/dataset.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::data;

namespace {

Description text(Task task) {
  Description d;
  d.task = task;
  d.vocab_size = 9;
  if (task == Task::regression) d.target_names = {"x", "y"};
  else d.labels = {"a", "b", "c"};
  return d;
}

Sample with_tokens(std::vector<int32_t> tokens) {
  Sample s;
  s.tokens = std::move(tokens);
  return s;
}

}  // namespace

TEST_CASE("samples are packed without padding") {
  std::vector<Sample> samples{with_tokens({1, 2, 3}), with_tokens({}), with_tokens({4, 5})};
  samples[0].label = 2;
  samples[1].label = 0;
  samples[2].label = 1;
  const Batch batch = collate(text(Task::classification), samples, {7, 8, 9});
  CHECK(batch.packing.offsets() == std::vector<int32_t>{0, 3, 3, 5});
  CHECK(batch.packing.sample_ids() == std::vector<uint32_t>{7, 8, 9});
  CHECK(std::vector<int32_t>(batch.tokens.span<int32_t>().begin(), batch.tokens.span<int32_t>().end()) ==
        std::vector<int32_t>{1, 2, 3, 4, 5});
  CHECK(batch.targets.span<int32_t>()[1] == 0);
  CHECK_FALSE(batch.weights.defined());
  CHECK_FALSE(batch.values.defined());
}

TEST_CASE("targets by task, weights when any is not 1") {
  std::vector<Sample> samples{with_tokens({1}), with_tokens({2, 3})};
  CHECK_FALSE(collate(text(Task::classification), samples, {0, 1}).targets.defined());
  samples[0].target = {1, 2};
  samples[1].target = {3, 4};
  samples[1].weight = 0.25F;
  const Batch regression = collate(text(Task::regression), samples, {0, 1});
  CHECK(regression.targets.shape() == Shape({2, 2}));
  CHECK(regression.targets.span<float>()[2] == 3);
  CHECK(regression.weights.span<float>()[1] == 0.25F);
  samples[0].tags = {2};
  samples[1].tags = {-100, 1};
  const Batch tagging = collate(text(Task::tagging), samples, {0, 1});
  CHECK(tagging.targets.span<int32_t>()[1] == -100);
  CHECK(tagging.targets.shape() == Shape({3}));
}

TEST_CASE("numeric samples become one matrix") {
  Description d;
  d.feature_names = {"u", "v"};
  d.labels = {"a"};
  std::vector<Sample> samples(2);
  samples[0].values = {1, 2, 3, 4};
  samples[1].values = {5, 6};
  samples[0].label = samples[1].label = 0;
  const Batch batch = collate(d, samples, {0, 1});
  CHECK(batch.values.shape() == Shape({3, 2}));
  CHECK(batch.values.span<float>()[5] == 6);
  samples[0].values.push_back(0);
  CHECK_THROWS_AS(collate(d, samples, {0, 1}), Error);
}

TEST_CASE("what a model must never see is refused") {
  const auto refused = [](Task task, Sample s) {
    Sample good = with_tokens({1});
    good.label = 0;
    good.target = {1, 2};
    good.tags = {0};
    CHECK_THROWS_AS(collate(text(task), {good, std::move(s)}, {0, 1}), Error);
  };
  Sample s = with_tokens({9});
  s.label = 0;
  refused(Task::classification, s);
  s.tokens = {-1};
  refused(Task::classification, s);
  s.tokens = {1};
  s.label = 3;
  refused(Task::classification, s);
  s.label = -1;
  refused(Task::classification, s);
  s.target = {1};
  refused(Task::regression, s);
  refused(Task::tagging, s);
  CHECK_THROWS_AS(collate(Description(), {}, {}), Error);
}
