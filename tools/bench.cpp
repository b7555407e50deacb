// SPDX-License-Identifier: Apache-2.0
// `tapeformer bench step`: the time and memory of full training steps (forward, backward, clipping, optimiser) on random tokens.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "framework/train/update.h"
#include "tools/bench_profile.h"
#include "tools/bench_tokens.h"
#include "tools/command.h"
#include "tools/experiment.h"
#include "tools/standard_output.h"

namespace tapeformer::tools {
namespace {

struct Options {
  std::vector<std::string> words;
  int64_t batch = 0, length = 0, steps = 15, warmup = 5;
  int64_t vocab = 32, classes = 10;
  bool ragged = false, json = false, trace = false, profile = false;
  std::string write_batches, save_start;  // for a comparison with another program: the same tokens, the same start
};

// For each step: the lengths [B], the labels [B] and the tokens [T] as int32.
void write_batches(const std::string& file, const RandomTokens& dataset, int64_t batch, int64_t steps) {
  std::ofstream out(file, std::ios::binary);
  const auto put = [&](const std::vector<int32_t>& v) {
    out.write(reinterpret_cast<const char*>(v.data()), static_cast<std::streamsize>(v.size() * sizeof(int32_t)));
  };
  data::Sample sample;
  for (int64_t s = 0; s < steps; ++s) {
    std::vector<int32_t> lengths, labels, tokens;
    for (int64_t i = s * batch; i < (s + 1) * batch; ++i) {
      dataset.read(data::Part::train, i, sample);
      lengths.push_back(static_cast<int32_t>(sample.tokens.size()));
      labels.push_back(sample.label);
      tokens.insert(tokens.end(), sample.tokens.begin(), sample.tokens.end());
    }
    put(lengths);
    put(labels);
    put(tokens);
  }
  if (!out.flush()) fail(ExitCode::resource, "{}: cannot write", file);
}

// The parameters as a checkpoint file.
void save_parameters(const std::string& file, train::Updater& updater) {
  io::Checkpoint checkpoint;
  for (const Parameter* p : updater.model_state().parameters) checkpoint.tensors["/model/" + p->name] = p->value;
  io::write_checkpoint(file, checkpoint);
}

// What the timed steps gave.
struct Measured {
  std::vector<double> milliseconds;
  nlohmann::ordered_json trace = nlohmann::ordered_json::array();
  double loss = 0, norm = 0, peak_mib = 0;
  int64_t tokens = 0;
  double seconds() const { return std::accumulate(milliseconds.begin(), milliseconds.end(), 0.0) / 1000; }
};

Measured measure(train::Updater& updater, const Options& o, Profile* profile) {
  Measured m;
  std::vector<int64_t> samples(static_cast<size_t>(o.batch));
  const MemoryWatch memory;
  const int64_t all = o.warmup + o.steps;
  for (int64_t s = 0; s < all; ++s) {
    if (s == o.warmup) updater.set_profile(profile);
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
  return m;
}

ExitCode step(Command& command, Options o) {
  if (o.words.empty()) fail(ExitCode::usage, "bench step needs a CONFIG");
  std::vector<std::string> overrides(o.words.begin() + 1, o.words.end());
  for (auto& flag : command.flag_overrides()) overrides.push_back(std::move(flag));
  config::Document document = config::Document::load(o.words[0], overrides);
  Experiment e = read_experiment(document, command.log);
  if (o.length == 0) o.length = e.data.max_length > 0 ? e.data.max_length : 128;
  if (o.batch == 0) o.batch = e.train.batch_size;
  e.data.task = data::Task::classification;
  const int64_t all = o.warmup + o.steps;
  const RandomTokens dataset({.samples = o.batch * all, .length = o.length, .vocab = o.vocab, .classes = o.classes, .ragged = o.ragged});
  const auto threads = make_threads(e.train);
  const kernels::Peak peak = o.profile ? kernels::measure_peak(*threads) : kernels::Peak{};
  const auto model = make_model(e, dataset.description());
  const Execution on{e.train.device, threads.get()};
  train::Updater updater(e.train, *model, dataset, on);
  if (!o.write_batches.empty()) write_batches(o.write_batches, dataset, o.batch, all);
  if (!o.save_start.empty()) save_parameters(o.save_start, updater);
  Profile profile;
  const Measured m = measure(updater, o, o.profile ? &profile : nullptr);
  const Quartiles ms = quartiles(m.milliseconds);
  const double tokens_per_s = static_cast<double>(m.tokens) / m.seconds();
  const ProfileReport report{profile, peak, threads->threads(), o.steps, m.seconds()};
  if (!o.json)
    return print_result(
        fmt::format("median {:.3f} ms a step (quartiles {:.3f}, {:.3f}), {:.0f} tokens/s, peak {:.1f} MiB above the loaded model\n{}",
                    ms.median, ms.first, ms.third, tokens_per_s, m.peak_mib, o.profile ? "\n" + profile_text(report) : ""));
  nlohmann::ordered_json j{{"config", o.words[0]},
                           {"batch", o.batch},
                           {"length", o.length},
                           {"ragged", o.ragged},
                           {"threads", threads->threads()},
                           {"device", name_of(on.device)},
                           {"steps", o.steps},
                           {"median_ms", ms.median},
                           {"quartile1_ms", ms.first},
                           {"quartile3_ms", ms.third},
                           {"tokens_per_s", tokens_per_s},
                           {"peak_mib", m.peak_mib},
                           {"loss", m.loss},
                           {"gradient_norm", m.norm}};
  if (o.trace) j["trace"] = m.trace;
  if (o.profile) j["profile"] = profile_json(report);
  return print_result(j.dump() + "\n");
}

}  // namespace

void add_bench(CLI::App& app, Command& command) {
  CLI::App* bench = app.add_subcommand("bench", "Measure speed and memory");
  bench->require_subcommand(1);
  auto o = std::make_shared<Options>();
  CLI::App* sub = bench->add_subcommand("step", "Full training steps on random tokens");
  sub->add_option("words", o->words, "CONFIG, then overrides key.path=value");
  sub->add_option("--batch", o->batch, "Samples of a step; by default train.batch_size")->check(CLI::Range(1, 1 << 24));
  sub->add_option("--length", o->length, "Rows of a sequence; by default data.max_length, else 128")->check(CLI::Range(1, 1 << 24));
  sub->add_option("--steps", o->steps, "Timed steps")->check(CLI::Range(1, 1 << 20));
  sub->add_option("--warmup", o->warmup, "Steps before them")->check(CLI::Range(0, 1 << 20));
  sub->add_option("--vocab", o->vocab, "Size of the vocabulary")->check(CLI::Range(1, 1 << 24));
  sub->add_option("--classes", o->classes, "Number of classes")->check(CLI::Range(1, 1 << 20));
  sub->add_flag("--ragged", o->ragged, "Lengths uniform in [length/4, length]");
  sub->add_option("--write-batches", o->write_batches, "Write the batches to this file: lengths, labels, tokens of each step as int32");
  sub->add_option("--save-start", o->save_start, "Write the parameters before the first step to this checkpoint");
  sub->add_flag("--trace", o->trace, "With --json: loss and gradient norm of every step");
  sub->add_flag("--profile", o->profile,
                "Where the time goes: each op's time, work, and share of what this machine gives (measured first)");
  sub->add_flag("--json", o->json, "Print JSON");
  sub->callback([&command, o] { command.action = [&command, o] { return step(command, *o); }; });
}

}  // namespace tapeformer::tools
