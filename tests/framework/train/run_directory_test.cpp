// SPDX-License-Identifier: Apache-2.0
// The files of a run that goes on: what is kept of its logs.
#include "framework/train/run_directory.h"

#include <filesystem>
#include <string>

#include "tests/framework/io/scratch.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using tapeformer::train::RunDirectory;
using tapeformer::train::RunState;

TEST_CASE("logs are cut to what a run had written in a state") {
  const Scratch scratch;
  const RunDirectory run = RunDirectory::create(scratch.path() / "run", train::Existing::refuse);
  const auto train_line = [](int step) { return fmt::format("{{\"step\":{},\"split\":\"train\"}}\n", step); };
  const auto valid_line = [](int step) { return fmt::format("{{\"step\":{},\"split\":\"valid\"}}\n", step); };
  const std::string header = "epoch,step\n";
  const auto cut = [&](const RunState& state) {
    run.write("metrics.jsonl", train_line(3) + train_line(6) + valid_line(6) + train_line(9) + "{\"step\":9,\"spl");
    run.write("epochs.csv", header + "1,3\n2,6\n3,9\n4");
    run.cut_logs_after(state);
    return scratch.read("run/metrics.jsonl") + scratch.read("run/epochs.csv");
  };
  RunState state{.step = 6, .position = {.epoch = 2, .cursor = 0}, .evaluated_step = 6};
  CHECK(cut(state) == train_line(3) + train_line(6) + valid_line(6) + header + "1,3\n2,6\n");
  state.evaluated_step = 3;
  CHECK(cut(state) == train_line(3) + train_line(6) + header + "1,3\n2,6\n");
  state.epoch.samples = 8;
  CHECK(cut(state) == train_line(3) + train_line(6) + header + "1,3\n");
  state.position.cursor = 4;  // in the middle of the next epoch
  CHECK(cut(state) == train_line(3) + train_line(6) + header + "1,3\n2,6\n");
  std::filesystem::remove(run.path() / "metrics.jsonl");
  std::filesystem::remove(run.path() / "epochs.csv");
  CHECK_NOTHROW(run.cut_logs_after(state));
}

TEST_CASE("a log that cannot be read is a fault and not an empty log") {
  const Scratch scratch;
  const RunDirectory run = RunDirectory::create(scratch.path() / "run", train::Existing::refuse);
  std::filesystem::create_directory(run.path() / "metrics.jsonl");
  try {
    run.cut_logs_after({});
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::resource);
    CHECK_THAT(e.what(), Catch::Matchers::Contains("metrics.jsonl is not a regular file"));
  }
}
