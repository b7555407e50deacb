// SPDX-License-Identifier: Apache-2.0
// What `tapeformer compare` is to train: a config for each variant, what it costs on this data, and whether earlier runs are of that
// config.
#include <fmt/format.h>

#include <algorithm>

#include "framework/kernels/cross_entropy.h"
#include "framework/nn/model.h"
#include "tools/attention_names.h"
#include "tools/compare.h"
#include "tools/run_files.h"

namespace tapeformer::tools {
namespace {

constexpr const char* seed_key = "run.seed";

std::map<std::string, std::string> without_seed(std::map<std::string, std::string> values) {
  values.erase(seed_key);
  return values;
}

// The section of a variant that this run does not use, how it is logged, how many threads it has: no result depends on it.
bool irrelevant(const std::string& key, const std::set<std::string>& used) {
  if (key.starts_with("log.") || key == "device.threads") return true;
  for (const models::AttentionVariant& v : models::attention_variants())
    if (!used.contains(std::string(v.name)) && key.starts_with(fmt::format("model.attention.{}.", v.name))) return true;
  return false;
}

// The class or tag that stands most often; the first of equals.
int commonest(const data::Dataset& dataset) {
  std::vector<int64_t> counts(static_cast<size_t>(dataset.description().outputs()));
  data::Sample sample;
  const auto count = [&](int32_t target) {
    if (target >= 0) ++counts[static_cast<size_t>(target)];
  };
  for (int64_t i = 0; i < dataset.size(data::Part::train); ++i) {
    dataset.read(data::Part::train, i, sample);
    if (dataset.description().task == data::Task::tagging) std::for_each(sample.tags.begin(), sample.tags.end(), count);
    else count(sample.label);
  }
  return static_cast<int>(std::max_element(counts.begin(), counts.end()) - counts.begin());
}

Baseline constant_class(const data::Dataset& dataset, data::Part part) {
  const data::Description& d = dataset.description();
  const int classes = static_cast<int>(d.outputs()), answer = commonest(dataset);
  train::ClassificationMetrics metrics(classes, train::Scores::drop);
  data::Sample sample;
  for (int64_t i = 0; i < dataset.size(part); ++i) {
    dataset.read(part, i, sample);
    const std::vector<int32_t> targets = d.task == data::Task::tagging ? sample.tags : std::vector<int32_t>{sample.label};
    const auto rows = static_cast<int64_t>(targets.size());
    const Tensor logits = Tensor::zeros(Dtype::f32, {rows, classes});
    for (int64_t r = 0; r < rows; ++r) logits.data<float>()[r * classes + answer] = 1;
    metrics.add(logits, Tensor::of(targets));
  }
  return {d.labels[static_cast<size_t>(answer)], metrics.values()};
}

Baseline constant_numbers(const data::Dataset& dataset, data::Part part) {
  const int64_t k = dataset.description().outputs();
  std::vector<double> mean(static_cast<size_t>(k));
  data::Sample sample;
  const auto each = [&](data::Part p, auto&& body) {
    for (int64_t i = 0; i < dataset.size(p); ++i) {
      dataset.read(p, i, sample);
      body(std::vector<double>(sample.target.begin(), sample.target.end()));
    }
  };
  const auto samples = static_cast<double>(dataset.size(data::Part::train));
  each(data::Part::train, [&](const std::vector<double>& target) {
    for (size_t c = 0; c < mean.size(); ++c) mean[c] += target[c] / samples;
  });
  train::RegressionMetrics metrics(static_cast<int>(k));
  const Tensor answer = Tensor::of<double>(mean).reshaped({1, k});
  each(part, [&](const std::vector<double>& target) { metrics.add(answer, Tensor::of<double>(target).reshaped({1, k})); });
  return {"the mean", metrics.values()};
}

// Mean over the samples of pairs / n^2, and over the layers; rows that the model puts in front of a sequence are among its n.
double share_of_pairs(const nn::Model& model, int extra_rows, const data::Dataset& dataset, data::Part part) {
  std::map<int32_t, int64_t> lengths;
  for (int64_t i = 0; i < dataset.size(part); ++i) ++lengths[dataset.length(part, i)];
  double sum = 0, weight = 0;
  for (const auto& [length, count] : lengths) {
    const double n = static_cast<double>(length) + extra_rows;
    for (const nn::Cost& c : model.cost({length}))
      if (c.pairs > 0) {
        sum += static_cast<double>(count) * c.pairs / (n * n);
        weight += static_cast<double>(count);
      }
  }
  return weight > 0 ? sum / weight : 1;
}

// A file that is no config is taken for one: its fault is then the variant's refusal, and not passed over.
bool builds_upon(const std::filesystem::path& own, const std::filesystem::path& config) {
  std::error_code ignored;
  if (!std::filesystem::exists(own, ignored)) return false;
  const auto base = config::base_of(own);
  return !base || std::filesystem::equivalent(*base, config, ignored);
}

Experiment read_variant(VariantResult& v, Log& log) {
  config::Document document = config::Document::load(v.config, v.overrides);
  Experiment experiment = read_experiment(document, log);
  v.settings = without_seed(document.values());
  return experiment;
}

// Only the attention may differ, and what the run is called.
void refuse_other_training(const std::vector<VariantResult>& variants) {
  const VariantResult* first = nullptr;
  for (const VariantResult& v : variants) {
    if (!v.refusal.empty()) continue;
    if (!first) first = &v;
    for (const Difference& d : differences(first->settings, v.settings))
      if (!d.key.starts_with("model.attention.") && d.key != "run.name")
        fail(ExitCode::usage, "{}: '{}' is {}, in {} it is {}: only the attention may differ in a comparison", v.config, d.key, d.now,
             first->config, d.before);
  }
}

std::map<std::string, std::string> values_of_run(const std::filesystem::path& file) {
  Log silent(LogLevel::off);
  try {
    config::Document document = config::Document::from_checkpoint(io::read_file(file, ExitCode::checkpoint, uint64_t{1} << 20), file.string(), {});
    document.allow_unavailable();
    read_experiment(document, silent);
    return without_seed(document.values());
  } catch (const Error& e) {
    fail(ExitCode::checkpoint, "{}: cannot be read any more: {}", file.string(), e.what());
  }
}

}  // namespace

std::vector<VariantResult> plan_variants(const std::string& config, const std::vector<std::string>& overrides,
                                         const std::vector<std::string>& names, Log& log) {
  std::vector<VariantResult> out;
  for (const std::string& name : names) {
    VariantResult v{.variant = name, .config = config, .overrides = overrides};
    if (const auto own = std::filesystem::path(config).replace_filename(name + ".yaml"); builds_upon(own, config)) {
      v.config = own.string();
      log.debug("{}: {}", name, v.config);
    } else {
      v.overrides.push_back("model.attention.type=" + name);
    }
    try {
      Log silent(LogLevel::off);
      v.used = used_variants(read_variant(v, out.empty() ? log : silent).model.attention);  // a config's warnings once
      if (!v.used.contains(name)) fail(ExitCode::usage, "{}: does not use '{}'", v.config, name);
    } catch (const Error& e) {
      if (e.code() != ExitCode::usage) throw;
      v.refusal = first_fault(e.what());
    }
    out.push_back(std::move(v));
  }
  refuse_other_training(out);
  return out;
}

void measure_variants(const data::Dataset& dataset, data::Part part, std::vector<VariantResult>& variants) {
  Log silent(LogLevel::off);
  for (VariantResult& v : variants) {
    if (!v.refusal.empty()) continue;
    const Experiment experiment = read_variant(v, silent);
    try {
      const auto model = make_model(experiment, dataset.description());
      nn::ModelState state;
      model->visit(state);
      for (const Parameter* p : state.parameters) v.parameters += p->value.count();
      v.pairs = share_of_pairs(*model, experiment.model.attention.extra_rows.count, dataset, part);
    } catch (const Error& e) {
      if (e.code() != ExitCode::usage && e.code() != ExitCode::data) throw;
      v.refusal = first_fault(e.what());
    }
  }
}

Baseline baseline_of(const data::Dataset& dataset, data::Part part) {
  return dataset.description().task == data::Task::regression ? constant_numbers(dataset, part) : constant_class(dataset, part);
}

void refuse_changed_runs(const Comparison& c) {
  std::vector<std::string> changed;
  for (const VariantResult& v : c.variants)
    for (const RunResult& run : v.runs) {
      const std::filesystem::path file = run.directory / "config.resolved.yaml";
      if (!v.refusal.empty() || !std::filesystem::exists(file)) continue;
      for (const Difference& d : differences(values_of_run(file), v.settings))
        if (!irrelevant(d.key, v.used))
          changed.push_back(fmt::format("{}: {} in {}, {} now", d.key, d.before, run.directory.string(), d.now));
    }
  if (changed.empty()) return;
  const size_t shown = std::min<size_t>(changed.size(), 20);
  fail(ExitCode::checkpoint,
       "the runs are of another config; what differs:\n  {}{}\n  compare in another directory, or move these runs away",
       fmt::join(changed.begin(), changed.begin() + static_cast<std::ptrdiff_t>(shown), "\n  "),
       shown < changed.size() ? fmt::format("\n  and {} more", changed.size() - shown) : "");
}

}  // namespace tapeformer::tools
