// SPDX-License-Identifier: Apache-2.0
// The files of a run that goes on: what is kept of its logs, what a kill left is removed.
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
    CHECK_THAT(e.what(), Catch::Matchers::ContainsSubstring("metrics.jsonl is not a regular file"));
  }
}

TEST_CASE("temporary files of a killed run are removed when it goes on, and nothing else") {
  const Scratch scratch;
  { const RunDirectory run = RunDirectory::create(scratch.path() / "run", train::Existing::refuse); }
  std::filesystem::create_directories(scratch.path() / "run/tokenizer");
  std::filesystem::create_directories(scratch.path() / "run/eval/test");
  const std::string ours[] = {"run/run.json.tmp-0123abcd", "run/metrics.jsonl.tmp-ffffffff", "run/tokenizer/tokenizer.json.tmp-00000000",
                              "run/checkpoints/step-00000004.h5.tmp-89abcdef"};
  // The last one may be that of an evaluation that goes on now.
  const std::string strangers[] = {"run/run.json",
                                   "run/run.json.tmp-0123abc",
                                   "run/run.json.tmp-0123abcx",
                                   "run/notes.tmp",
                                   "run/notes.tmp-20261130",
                                   "run/tokenizer/mine.json.tmp-0123abcd",
                                   "run/checkpoints/step-4.h5.tmp-89abcdef",
                                   "run/.tmp-0123abcd",
                                   "run/checkpoints/mine.tmp-89abcdef",
                                   "run/eval/test/metrics.json.tmp-0123abcd"};
  for (const std::string& name : ours) scratch.write(name, "x");
  for (const std::string& name : strangers) scratch.write(name, "x");
  const RunDirectory run = RunDirectory::open(scratch.path() / "run");
  for (const std::string& name : ours) CHECK_FALSE(std::filesystem::exists(scratch.path() / name));
  for (const std::string& name : strangers) CHECK(std::filesystem::exists(scratch.path() / name));
}
