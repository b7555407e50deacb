// SPDX-License-Identifier: Apache-2.0
// `tapeformer bench step`: the time and memory of full training steps (forward, backward, clipping, optimiser) on random tokens.
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <numeric>

#include "framework/train/update.h"
#include "tools/bench_attention.h"
#include "tools/bench_predict.h"
#include "tools/bench_profile.h"
#include "tools/bench_timing.h"
#include "tools/standard_output.h"

namespace tapeformer::tools {
namespace {

struct StepOptions : BenchSizes {
  bool trace = false;
};

struct Measured : Timing {
  nlohmann::ordered_json trace = nlohmann::ordered_json::array();
  double loss = 0, norm = 0;
};

Measured measure(train::Updater& updater, const StepOptions& o, Profile* profile) {
  Measured m;
  std::vector<int64_t> samples(static_cast<size_t>(o.batch));
  const MemoryWatch memory;
  const int64_t all = o.batches();
  for (int64_t s = 0; s < all; ++s) {
    if (s == o.warmup) {
      updater.set_profile(profile);
      m.allocated_bytes = allocator_statistics().bytes_requested;
    }
    std::iota(samples.begin(), samples.end(), s * o.batch);
    const auto began = std::chrono::steady_clock::now();
    const train::UpdateResult r = updater.update(s + 1, all, samples);
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
    if (o.trace) m.trace.push_back({{"loss", r.loss / r.count}, {"gradient_norm", r.gradient_norm}});
    if (s + 1 == std::min<int64_t>(5, all)) m.peak_mib = memory.peak_mib();
    if (s < o.warmup) continue;
    m.milliseconds.push_back(ms);
    m.tokens += r.tokens;
    m.loss = r.loss / r.count;
    m.norm = r.gradient_norm;
  }
  m.allocated_bytes = allocator_statistics().bytes_requested - m.allocated_bytes;
  return m;
}

ExitCode step(Command& command, StepOptions o) {
  const Experiment e = read_bench_experiment(command, o);
  const RandomTokens dataset(o);
  const auto threads = make_threads(e.train);
  const kernels::Peak peak = o.profile ? kernels::measure_peak(*threads) : kernels::Peak{};
  const auto model = make_model(e, dataset.description());
  const Execution on{e.train.device, threads.get()};
  train::Updater updater(e.train, *model, dataset, on);
  if (!o.write_batches.empty()) write_batches(o.write_batches, dataset, o);
  if (!o.save_start.empty()) save_start(o.save_start, updater.model_state());
  Profile profile;
  const Measured m = measure(updater, o, o.profile ? &profile : nullptr);
  const ProfileReport report{profile, peak, threads->threads(), o.steps, m.seconds()};
  if (!o.json) return print_result(timing_text(m, "step") + (o.profile ? "\n" + profile_text(report) : ""));
  nlohmann::ordered_json j = timing_json(m, o, on);
  j["loss"] = m.loss;
  j["gradient_norm"] = m.norm;
  if (o.trace) j["trace"] = m.trace;
  if (o.profile) j["profile"] = profile_json(report);
  return print_result(j.dump() + "\n");
}

}  // namespace

void add_bench(const Verb& program, Command& command) {
  const Verb bench = program.verb("bench", "Measure speed and memory");
  bench.needs_verb();
  add_bench_attention(bench, command);
  auto o = std::make_shared<StepOptions>();
  const Verb sub = bench.verb("step", "Full training steps on random tokens");
  add_bench_sizes(sub, *o);
  sub.flag("--trace", o->trace, "With --json: loss and gradient norm of every step");
  sub.runs([&command, o] { return step(command, *o); });
  add_bench_predict(bench, command);
}

}  // namespace tapeformer::tools
