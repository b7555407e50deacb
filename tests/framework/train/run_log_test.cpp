// SPDX-License-Identifier: Apache-2.0
// What a run writes after it was resumed: speeds of what was done since, and event files that void what they repeat.
#include "framework/train/run_log.h"

#include <filesystem>
#include <string>

#include "framework/io/csv.h"
#include "tests/framework/io/scratch.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;
using tapeformer::train::RunDirectory;
using tapeformer::train::RunLog;
using tapeformer::train::RunState;

namespace {

std::string events_of(const RunDirectory& run, const char* part) {
  std::string all;
  for (const auto& file : std::filesystem::directory_iterator(run.path() / "tensorboard" / part)) {
    std::ifstream in(file.path(), std::ios::binary);
    all.append(std::istreambuf_iterator<char>(in), {});
  }
  return all;
}

// The record of a resumed run in an event file: field 2, the step from which it voids earlier files; field 7, SessionLog START.
std::string voids_from(char step) { return {'\x10', step, '\x3a', '\x02', '\x08', '\x01'}; }
const std::string start_of_session = "\x3a\x02\x08\x01";

RunState after(RunState state, int64_t samples, int64_t tokens) {
  for (RunState::Sums* sums : {&state.window, &state.epoch}) {
    sums->samples += samples;
    sums->tokens += tokens;
  }
  ++state.step;
  return state;
}

}  // namespace

TEST_CASE("speeds after a resume count what was done since") {
  const Scratch scratch;
  const RunDirectory run = RunDirectory::create(scratch.path() / "run", train::Existing::refuse);
  const RunState before = after(RunState(), 1'000'000'000, 8'000'000'000);
  RunLog log(run, false, before);
  RunState state = after(before, 10'000'000, 30'000'000);
  log.train_line(state, {});
  const std::string line = scratch.read("run/metrics.jsonl");
  const auto number = [&](const std::string& key) { return std::stod(line.substr(line.find('"' + key + "\":") + key.size() + 3)); };
  CHECK_THAT(number("tokens_per_s") / number("samples_per_s"), WithinRel(3.0, 0.01));
  log.epoch_row(state, 0.1, nullptr);
  // The next epoch begins with nothing.
  state.window = state.epoch = {};
  log.epoch_row(after(state, 10'000'000, 20'000'000), 0.1, nullptr);
  io::CsvReader rows(run.path() / "epochs.csv", ',', io::Encoding::utf8);
  io::CsvRow row;
  for (const double expected : {3.0, 2.0}) {
    REQUIRE(rows.next(row));
    const auto field = [&](const char* name) { return std::stod(row.fields[rows.column(name)]); };
    CHECK_THAT(field("tokens_per_s") / field("samples_per_s"), WithinRel(expected, 0.01));
  }
}

TEST_CASE("a table of epochs that a kill left empty or with half a header gets its header") {
  const Scratch scratch;
  const RunDirectory run = RunDirectory::create(scratch.path() / "run", train::Existing::refuse);
  for (const char* left : {"", "epoch,step,train/l"}) {
    scratch.write("run/epochs.csv", left);
    const RunState state = after({}, 1, 1);
    run.cut_logs_after(state);
    RunLog(run, false, state).epoch_row(state, 0.1, nullptr);
    io::CsvReader rows(run.path() / "epochs.csv", ',', io::Encoding::utf8);
    io::CsvRow row;
    REQUIRE(rows.next(row));
    CHECK(row.fields[rows.column("step")] == "1");
    CHECK_FALSE(rows.next(row));
  }
}

TEST_CASE("event files of a resumed run void later steps, from the first step on too") {
  const Scratch scratch;
  const RunDirectory run = RunDirectory::create(scratch.path() / "run", train::Existing::refuse);
  {
    RunLog log(run, true, std::nullopt);
    log.train_line(after({}, 1, 1), {});
    CHECK_THAT(events_of(run, "train"), !ContainsSubstring(start_of_session));
  }
  RunState state;  // saved before the first update
  {
    RunLog log(run, true, state);
    log.train_line(after(state, 1, 1), {});
    CHECK_THAT(events_of(run, "train"), ContainsSubstring(voids_from(1)));
  }
  state.step = 6;  // an evaluation of this step was cut short
  state.evaluated_step = 4;
  RunLog log(run, true, state);
  train::Evaluation evaluation;
  evaluation.values = {{"loss", 0.5}};
  log.evaluation_line(state, data::Part::valid, evaluation);
  log.train_line(after(state, 1, 1), {});
  CHECK_THAT(events_of(run, "train"), ContainsSubstring(voids_from(7)));
  CHECK_THAT(events_of(run, "valid"), ContainsSubstring(voids_from(5)));
}
