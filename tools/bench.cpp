// SPDX-License-Identifier: Apache-2.0
// `tapeformer bench step`: the time and memory of full training steps (forward, backward, clipping, optimiser) on random tokens.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "framework/core/random.h"
#include "framework/train/update.h"
#include "tools/command.h"
#include "tools/experiment.h"
#include "tools/standard_output.h"

namespace tapeformer::tools {
namespace {

struct Options {
  std::vector<std::string> words;
  int64_t batch = 0, length = 0, steps = 15, warmup = 5;
  int64_t vocab = 32, classes = 10;
  bool ragged = false, json = false, trace = false;
  std::string write_batches, save_start;  // for a comparison with another program: the same tokens, the same start
};

// Batches of random tokens; every sample is of the same length, or of lengths uniform in [length/4, length].
class RandomTokens : public data::Dataset {
 public:
  RandomTokens(const Options& o, int64_t samples) : options_(o), samples_(samples) {
    description_.vocab_size = o.vocab;
    description_.max_length = o.length;
    for (int64_t k = 0; k < o.classes; ++k) description_.labels.push_back(fmt::format("{}", k));
  }
  const data::Description& description() const override { return description_; }
  int64_t size(data::Part part) const override { return part == data::Part::train ? samples_ : 0; }
  int32_t length(data::Part, int64_t index) const override {
    if (!options_.ragged) return static_cast<int32_t>(options_.length);
    const double u = Draw{random_key(1, "bench", "length"), static_cast<uint32_t>(index), 0}.uniform(0, 0);
    const int64_t shortest = std::max<int64_t>(1, options_.length / 4);
    return static_cast<int32_t>(shortest + static_cast<int64_t>(u * static_cast<double>(options_.length - shortest + 1)));
  }
  void read(data::Part part, int64_t index, data::Sample& out) const override {
    const Draw draw{random_key(1, "bench", "token"), static_cast<uint32_t>(index), 0};
    out = {};
    for (int32_t i = 0; i < length(part, index); ++i)
      out.tokens.push_back(static_cast<int32_t>(draw.word(static_cast<uint32_t>(i), 0) % static_cast<uint64_t>(options_.vocab)));
    out.label = static_cast<int32_t>(index % options_.classes);
  }
  std::vector<std::string> report() const override { return {}; }

 private:
  Options options_;
  int64_t samples_;
  data::Description description_;
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

// A line of /proc/self/status in MiB, such as VmHWM (the most resident memory since its last reset).
double status_mib(const std::string& key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key + ":")) return std::stod(line.substr(key.size() + 1)) / 1024;
  return 0;
}

double quantile(std::vector<double> sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
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
  const RandomTokens dataset(o, o.batch * all);
  const auto threads = make_threads(e.train);
  const auto model = make_model(e, dataset.description());
  const Execution on{e.train.device, threads.get()};
  train::Updater updater(e.train, *model, dataset, on);
  if (!o.write_batches.empty()) write_batches(o.write_batches, dataset, o.batch, all);
  if (!o.save_start.empty()) save_parameters(o.save_start, updater);
  std::vector<double> milliseconds;
  nlohmann::ordered_json trace = nlohmann::ordered_json::array();
  double loss = 0, norm = 0;
  int64_t tokens = 0;
  std::vector<int64_t> samples(static_cast<size_t>(o.batch));
  std::ofstream("/proc/self/clear_refs") << "5";  // resets VmHWM
  const double before = status_mib("VmRSS");
  double peak = 0;
  for (int64_t s = 0; s < all; ++s) {
    std::iota(samples.begin(), samples.end(), s * o.batch);
    const auto began = std::chrono::steady_clock::now();
    const train::UpdateResult r = updater.update(s + 1, all, samples);
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
    if (o.trace) trace.push_back({{"loss", r.loss / r.count}, {"gradient_norm", r.gradient_norm}});
    if (s + 1 == 5) peak = status_mib("VmHWM") - before;
    if (s < o.warmup) continue;
    milliseconds.push_back(ms);
    tokens += r.tokens;
    loss = r.loss / r.count;
    norm = r.gradient_norm;
  }
  if (peak == 0) peak = status_mib("VmHWM") - before;
  const double total = std::accumulate(milliseconds.begin(), milliseconds.end(), 0.0);
  std::sort(milliseconds.begin(), milliseconds.end());
  nlohmann::ordered_json j{{"config", o.words[0]},
                           {"batch", o.batch},
                           {"length", o.length},
                           {"ragged", o.ragged},
                           {"threads", threads->threads()},
                           {"device", name_of(on.device)},
                           {"steps", o.steps},
                           {"median_ms", quantile(milliseconds, 0.5)},
                           {"quartile1_ms", quantile(milliseconds, 0.25)},
                           {"quartile3_ms", quantile(milliseconds, 0.75)},
                           {"tokens_per_s", static_cast<double>(tokens) / total * 1000},
                           {"peak_mib", peak},
                           {"loss", loss},
                           {"gradient_norm", norm}};
  if (o.trace) j["trace"] = trace;
  if (o.json) return print_result(j.dump() + "\n");
  return print_result(
      fmt::format("median {:.3f} ms a step (quartiles {:.3f}, {:.3f}), {:.0f} tokens/s, peak {:.1f} MiB above the loaded model\n",
                  j["median_ms"].get<double>(), j["quartile1_ms"].get<double>(), j["quartile3_ms"].get<double>(),
                  j["tokens_per_s"].get<double>(), peak));
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
  sub->add_flag("--json", o->json, "Print JSON");
  sub->callback([&command, o] { command.action = [&command, o] { return step(command, *o); }; });
}

}  // namespace tapeformer::tools
