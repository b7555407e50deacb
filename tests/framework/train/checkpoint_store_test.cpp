// SPDX-License-Identifier: Apache-2.0
// Which checkpoint a run goes back to: the newest before a step that is whole and finite; what it passes over is said.
#include "framework/train/checkpoint_store.h"

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "framework/train/checkpoint.h"
#include "tests/framework/io/scratch.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using Catch::Matchers::ContainsSubstring;
using tapeformer::train::CheckpointStore;

namespace {

io::Checkpoint checkpoint_of(int64_t step, float weight, double moment) {
  io::Checkpoint c;
  c.attributes["/"]["step"] = step;
  c.tensors["/model/weight"] = Tensor::of<float>({1, weight});
  c.tensors["/optimizer/exp_avg/weight"] = Tensor::of<double>({moment});
  c.tensors["/buffers/batches"] = Tensor::of<int64_t>({step});
  return c;
}

}  // namespace

TEST_CASE("checkpoints that are not finite, not whole or too new are passed over") {
  const Scratch scratch;
  const CheckpointStore store(scratch.path());
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  io::write_checkpoint(store.file_of(2), checkpoint_of(2, 0, 0));
  io::write_checkpoint(store.file_of(4), checkpoint_of(4, nan, 0));
  io::write_checkpoint(store.file_of(6), checkpoint_of(6, 0, std::numeric_limits<double>::infinity()));
  io::write_checkpoint(store.file_of(8), checkpoint_of(8, 0, 0));
  std::filesystem::resize_file(store.file_of(8), 700);
  io::write_checkpoint(store.file_of(10), checkpoint_of(10, 0, 0));
  std::vector<std::string> lines;
  Log log;
  log.set_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  const auto found = store.last_finite_before(10, log);
  REQUIRE(found);
  CHECK(train::step_of(*found) == 2);
  REQUIRE(lines.size() == 3);
  CHECK_THAT(lines[0], ContainsSubstring("step-00000008.h5") && ContainsSubstring("cut"));
  CHECK_THAT(lines[1], ContainsSubstring("step-00000006.h5") && ContainsSubstring("/optimizer/exp_avg/weight is not finite"));
  CHECK_THAT(lines[2], ContainsSubstring("step-00000004.h5") && ContainsSubstring("/model/weight"));
  CHECK(train::step_of(*store.last_finite_before(11, log)) == 10);
  CHECK_FALSE(store.last_finite_before(2, log));
  CHECK(store.has(8));
  CHECK_FALSE(store.has(3));
}

TEST_CASE("a checkpoint that is not planned is passed over, not counted, and goes with the next") {
  const Scratch scratch;
  const CheckpointStore store(scratch.path());
  const auto save = [&](int64_t step, bool planned, int64_t unplanned) {
    io::Checkpoint c = checkpoint_of(step, 0, 0);
    if (!planned) c.attributes["/control"]["unplanned"] = true;
    store.save(c, step, {.keep_last = 2, .best_step = 1, .unplanned = unplanned});
    return store.steps();
  };
  using Steps = std::vector<int64_t>;
  save(1, true, -1);
  save(2, true, -1);
  CHECK(save(4, true, -1) == Steps{1, 2, 4});
  CHECK(save(5, false, -1) == Steps{1, 2, 4, 5});
  Log log;
  CHECK(train::step_of(*store.last_finite_before(6, log)) == 4);
  CHECK(save(6, false, 5) == Steps{1, 2, 4, 6});
  CHECK(save(6, false, 6) == Steps{1, 2, 4, 6});  // once more, with an evaluation
  CHECK(save(8, true, 6) == Steps{1, 4, 8});
}
