// SPDX-License-Identifier: Apache-2.0
// `tapeformer compare`: the same config trained with each attention variant and seed, and one table of what came out. Each (variant, seed)
// is a run directory of its own, trained and evaluated in a process of its own; what is done is not done again.
#include "tools/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "framework/io/durable_file.h"
#include "framework/io/lock_file.h"
#include "framework/train/run_directory.h"
#include "tools/attention_names.h"
#include "tools/command.h"
#include "tools/deadline.h"
#include "tools/standard_output.h"

namespace tapeformer::tools {
namespace fs = std::filesystem;
namespace {

struct Options {
  std::vector<std::string> words;  // CONFIG and overrides
  std::vector<std::string> attention{"all"};
  std::vector<uint64_t> seeds{1, 2, 3};
  std::string output, split = "test", metric, max_time;
  bool json = false;
};

using Clock = std::chrono::steady_clock;

data::Part part_of(const std::string& split) { return split == "valid" ? data::Part::valid : data::Part::test; }

// What save() writes.
const io::OwnName& own_files() {
  static const io::OwnName names = io::one_of({"compare.json", "compare.csv"});
  return names;
}

// A directory that something else fills is refused; one of an earlier call must be about the same data and part.
void check_directory(const Comparison& c) {
  const fs::path& directory = c.directory;
  if (fs::exists(directory) && !fs::is_directory(directory))
    fail(ExitCode::resource, "{}: is a file; name a directory", directory.string());
  std::ifstream in(directory / "compare.json");
  if (!in) {
    for (const auto& entry : fs::exists(directory) ? fs::directory_iterator(directory) : fs::directory_iterator())
      if (entry.path().filename() != "LOCK" && !io::is_temporary(entry.path().filename().string(), own_files()))
        fail(ExitCode::resource, "{}: is not empty and no earlier `compare` made it; name another directory", directory.string());
    return;
  }
  const auto before = nlohmann::json::parse(in, nullptr, false);
  if (before.is_discarded()) fail(ExitCode::checkpoint, "{}: cannot be read", (directory / "compare.json").string());
  if (const std::string split = before.value("split", ""); split != c.split)
    fail(ExitCode::checkpoint, "{}: was evaluated on the {} part, --split says {} now; compare in another directory", directory.string(),
         split, c.split);
  if (before.value("data_fingerprint", "") != c.fingerprint)
    fail(ExitCode::data, "{}: the data is not what these runs were started with; bring the old files back, or compare in another directory",
         directory.string());
}

// What the run is called, where that is a name for a directory; else the config's.
fs::path directory_for(const Experiment& experiment, const fs::path& config) {
  const std::string& name = experiment.train.name;
  const bool usable = !name.empty() && name[0] != '.' && name.find('/') == std::string::npos;
  return fs::path("runs") / "compare" / (usable ? fs::path(name) : config.stem());
}

// Everything that can be known before training.
Comparison plan(Command& command, const Options& o) {
  Comparison c{.config = o.words.at(0), .split = o.split, .overrides = {o.words.begin() + 1, o.words.end()}, .seeds = o.seeds};
  for (auto& flag : command.flag_overrides()) c.overrides.push_back(std::move(flag));
  const std::vector<std::string> names = attention_names("--attention", o.attention);
  for (size_t s = 1; s < o.seeds.size(); ++s)
    if (std::find(o.seeds.begin(), o.seeds.begin() + static_cast<std::ptrdiff_t>(s), o.seeds[s]) !=
        o.seeds.begin() + static_cast<std::ptrdiff_t>(s))
      fail(ExitCode::usage, "--seeds: {} stands twice", o.seeds[s]);
  config::Document document = config::Document::load(c.config, c.overrides);
  Log silent(LogLevel::off);
  const Experiment experiment = read_experiment(document, silent);  // a fault that no variant mends is the whole report
  c.directory = o.output.empty() ? directory_for(experiment, c.config) : fs::path(o.output);
  c.variants = plan_variants(c.config, c.overrides, names, command.log);
  for (VariantResult& v : c.variants)
    for (const uint64_t seed : c.seeds)
      v.runs.push_back({.seed = seed, .directory = c.directory / v.variant / fmt::format("seed-{}", seed)});
  refuse_changed_runs(c);
  const auto dataset = datasets::open_dataset(experiment.data, {.parts = {data::Part::train, part_of(o.split)}});
  if (dataset->size(part_of(o.split)) == 0) fail(ExitCode::data, "the {} part has no samples; name another with --split", o.split);
  if (dataset->size(data::Part::train) == 0) fail(ExitCode::data, "the training part has no samples");
  c.fingerprint = dataset->description().fingerprint;
  measure_variants(*dataset, part_of(o.split), c.variants);
  c.baseline = baseline_of(*dataset, part_of(o.split));
  c.metric = !o.metric.empty() ? o.metric : experiment.data.task == data::Task::regression ? "rmse" : "accuracy";
  std::vector<std::string> metrics;
  for (const train::Metric& m : c.baseline.metrics) metrics.push_back(m.name);
  if (std::find(metrics.begin(), metrics.end(), c.metric) == metrics.end())
    fail(ExitCode::usage, "--metric {}: is none of {}", printable(c.metric), fmt::join(metrics, ", "));
  return c;
}

void save(const Comparison& c) {
  train::write_whole(c.directory / "compare.json", table_json(c));
  train::write_whole(c.directory / "compare.csv", table_csv(c));
}

// It saved and left because it was told to.
bool stopped(int code) {
  return code == static_cast<int>(ExitCode::time_limit) || code == static_cast<int>(ExitCode::interrupted) ||
         code == static_cast<int>(ExitCode::terminated);
}

// Seed by seed, so that a table of all variants is there early. The code of what ended it before all was tried, or 0.
int do_all(Command& command, Comparison& c, std::optional<Clock::time_point> deadline) {
  ChildRunner children;
  const std::string level = command.log.level() <= LogLevel::debug ? "info" : command.log.level() >= LogLevel::error ? "error" : "warn";
  const std::vector<std::string> flags{"--log-level", level, "--progress", command.progress};
  const size_t all = c.seeds.size() * c.variants.size();
  size_t number = 0;
  for (size_t s = 0; s < c.seeds.size(); ++s)
    for (VariantResult& v : c.variants) {
      ++number;
      RunResult& run = v.runs[s];
      if (!v.refusal.empty() || run.done) continue;
      std::optional<double> left;
      if (deadline) left = std::chrono::duration<double>(*deadline - Clock::now()).count();
      if (left && *left <= 0) return static_cast<int>(ExitCode::time_limit);
      if (const int signal = children.stop_signal()) return 128 + signal;
      command.log.info("{} of {}: {}, seed {}", number, all, v.variant, run.seed);
      do_run(children, c, flags, v, run, left);
      const int signal = children.stop_signal();
      if (signal != 0 || stopped(run.exit_code)) run.failure.clear();  // it is not done, but nothing went wrong
      save(c);
      if (run.done) command.log.info("{}, seed {}: {} {}", v.variant, run.seed, c.metric, value_in(run.metrics, c.metric).value_or(NAN));
      if (signal != 0) return 128 + signal;
      if (stopped(run.exit_code)) return run.exit_code;
      if (!run.failure.empty()) command.log.warn("{}, seed {}: {}", v.variant, run.seed, run.failure);
      if (run.exit_code == static_cast<int>(ExitCode::resource)) return run.exit_code;  // the next would meet it as well
    }
  return 0;
}

// Of a comparison that came to its end: a run that failed, else done. A variant that cannot run is a row of the table.
ExitCode outcome(const Comparison& c) {
  for (const VariantResult& v : c.variants)
    for (const RunResult& run : v.runs)
      if (!run.failure.empty()) return run.exit_code < 128 ? static_cast<ExitCode>(run.exit_code) : ExitCode::resource;
  return ExitCode::done;
}

ExitCode compare(Command& command, const Options& o) {
  const auto deadline = deadline_of(o.max_time);
  Comparison c = plan(command, o);
  check_directory(c);
  std::vector<std::string> reasons;
  for (const VariantResult& v : c.variants)
    if (!v.refusal.empty()) reasons.push_back(fmt::format("{}: {}", v.variant, v.refusal));
  if (reasons.size() == c.variants.size()) fail(ExitCode::usage, "no variant can run with this config:\n  {}", fmt::join(reasons, "\n  "));
  for (const std::string& reason : reasons) command.log.warn("{}", reason);
  fs::create_directories(c.directory);
  const io::LockFile lock(c.directory / "LOCK", "tapeformer compare");
  io::remove_temporaries(c.directory, own_files());  // of a call that was killed while it saved the table
  for (VariantResult& v : c.variants)
    for (RunResult& run : v.runs) read_result(c, run);
  save(c);
  if (const int code = do_all(command, c, deadline)) {
    command.log.info("stopped; the same command goes on");
    return static_cast<ExitCode>(code);
  }
  const ExitCode code = outcome(c);
  print_result(o.json ? table_json(c) : table_text(c));
  return code;
}

}  // namespace

void add_compare(const Verb& program, Command& command) {
  auto o = std::make_shared<Options>();
  const Verb sub = program.verb("compare", "Train a config with each attention variant and seed; one table");
  sub.option("CONFIG", o->words, "A config file, then overrides key.path=value (~key.path removes a key)").required();
  sub.option("--attention", o->attention, "all, one, or several: full,local,linear").list();
  sub.option("--seeds", o->seeds, "Of the runs: 1,2,3").list();
  sub.option("-o,--output", o->output,
             "Directory of the runs and the table, runs/compare/<run.name> unless given; a second call goes on there");
  sub.option("--split", o->split, "The part that is scored: test or valid").one_of({"test", "valid"});
  sub.option("--metric", o->metric, "The score; accuracy unless given, rmse for regression");
  sub.option("--max-time", o->max_time, "Save and leave with exit 75 after this time: 90s, 30m, 8h");
  sub.flag("--json", o->json, "Print the table as JSON");
  sub.runs([&command, o] { return compare(command, *o); });
}

}  // namespace tapeformer::tools
