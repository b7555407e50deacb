// SPDX-License-Identifier: Apache-2.0
// `tapeformer bench predict`: the time and memory of inference, from tokens to probabilities.
#include "tools/bench_predict.h"

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "framework/ops/softmax.h"
#include "tools/bench_profile.h"
#include "tools/bench_timing.h"
#include "tools/standard_output.h"

namespace tapeformer::tools {
namespace {

struct PredictOptions : BenchSizes {
  std::string write_outputs;  // for a comparison with another program: the probabilities of every step
};

std::vector<data::Sample> read_samples(const RandomTokens& dataset, int64_t first, int64_t count) {
  std::vector<data::Sample> samples(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) dataset.read(data::Part::train, first + i, samples[static_cast<size_t>(i)]);
  return samples;
}

data::Batch collate(const RandomTokens& dataset, const std::vector<data::Sample>& samples) {
  std::vector<uint32_t> ids(samples.size());
  std::iota(ids.begin(), ids.end(), 0u);
  return data::collate(dataset.description(), samples, std::move(ids));
}

class Predictor {
 public:
  Predictor(const Experiment& e, nn::Model& model, const RandomTokens& dataset, const Execution& on)
      : model_(model), dataset_(dataset), context_{.on = on, .mode = Mode::evaluate, .seed = e.train.seed, .dtype = e.train.dtype} {}

  // BatchNorm's statistics are those of one batch: a model that was never trained has none.
  void calibrate(const std::vector<data::Sample>& samples) {
    Context context = context_;
    context.mode = Mode::calibrate;
    model_.forward(context, collate(dataset_, samples));
  }
  void set_profile(Profile* profile) { context_.profile = profile; }
  // Probabilities [B, classes].
  Tensor predict(const std::vector<data::Sample>& samples) {
    const data::Batch batch = [&] {
      const ProfileScope scope(context_.profile, "data");
      return collate(dataset_, samples);
    }();
    return ops::softmax(context_, model_.forward(context_, batch)).value;
  }

 private:
  nn::Model& model_;
  const RandomTokens& dataset_;
  Context context_;
};

Timing measure(Predictor& predictor, const RandomTokens& dataset, const PredictOptions& o, Profile* profile) {
  Timing m;
  std::ofstream outputs;
  if (!o.write_outputs.empty()) outputs.open(o.write_outputs, std::ios::binary);
  const MemoryWatch memory;
  for (int64_t s = 0; s < o.batches(); ++s) {
    if (s == o.warmup) {
      predictor.set_profile(profile);
      m.allocated_bytes = allocator_statistics().bytes_requested;
    }
    const std::vector<data::Sample> samples = read_samples(dataset, s * o.batch, o.batch);
    const auto began = std::chrono::steady_clock::now();
    const Tensor probabilities = predictor.predict(samples);
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
    if (outputs.is_open())
      outputs.write(reinterpret_cast<const char*>(probabilities.converted(Dtype::f32).raw()),
                    static_cast<std::streamsize>(sizeof(float)) * probabilities.count());
    if (s < o.warmup) continue;
    m.milliseconds.push_back(ms);
    for (const data::Sample& sample : samples) m.tokens += static_cast<int64_t>(sample.tokens.size());
  }
  m.peak_mib = memory.peak_mib();
  m.allocated_bytes = allocator_statistics().bytes_requested - m.allocated_bytes;
  if (outputs.is_open() && !outputs.flush()) fail(ExitCode::resource, "{}: cannot write", o.write_outputs);
  return m;
}

ExitCode bench(Command& command, PredictOptions o) {
  const Experiment e = read_bench_experiment(command, o);
  const RandomTokens dataset(o);
  const auto threads = make_threads(e.train);
  const kernels::Peak peak = o.profile ? kernels::measure_peak(*threads) : kernels::Peak{};
  const auto model = make_model(e, dataset.description());
  const Execution on{e.train.device, threads.get()};
  Predictor predictor(e, *model, dataset, on);
  predictor.calibrate(read_samples(dataset, 0, o.batch));
  if (!o.write_batches.empty()) write_batches(o.write_batches, dataset, o);
  nn::ModelState state;
  model->visit(state);
  if (!o.save_start.empty()) save_start(o.save_start, state);
  const int folded = model->prepare_inference();
  release_cached();  // what the calibration left
  Profile profile;
  const Timing m = measure(predictor, dataset, o, o.profile ? &profile : nullptr);
  const ProfileReport report{profile, peak, threads->threads(), o.steps, m.seconds()};
  if (!o.json)
    return print_result(
        fmt::format("{}{} BatchNorm layers folded\n{}", timing_text(m, "batch"), folded, o.profile ? "\n" + profile_text(report) : ""));
  nlohmann::ordered_json j = timing_json(m, o, on);
  j["folded_layers"] = folded;
  if (o.profile) j["profile"] = profile_json(report);
  return print_result(j.dump() + "\n");
}

}  // namespace

void add_bench_predict(const Verb& program, Command& command) {
  auto o = std::make_shared<PredictOptions>();
  const Verb sub = program.verb("predict", "Inference on random tokens, from tokens to probabilities, BatchNorm folded");
  add_bench_sizes(sub, *o);
  sub.option("--write-outputs", o->write_outputs, "Write the probabilities of every step to this file as float32");
  sub.runs([&command, o] { return bench(command, *o); });
}

}  // namespace tapeformer::tools
