// SPDX-License-Identifier: Apache-2.0
// `tapeformer eval`: the metrics of a trained model on a part of its data. It says which weights and which BatchNorm statistics it used.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "framework/io/csv.h"
#include "framework/io/durable_file.h"
#include "framework/train/evaluator.h"
#include "framework/train/run_directory.h"
#include "tools/command.h"
#include "tools/experiment.h"
#include "tools/one_row.h"
#include "tools/overrides.h"
#include "tools/predict_output.h"
#include "tools/standard_output.h"

namespace tapeformer::tools {
namespace {

struct Options {
  std::string run, split = "test", batchnorm = "running", weights;
  std::vector<std::string> overrides;
  bool json = false;
};

data::Part part_of(const std::string& word) {
  for (const data::Part p : {data::Part::train, data::Part::valid, data::Part::test})
    if (data::name_of(p) == word) return p;
  fail(ExitCode::usage, "--split {}: is none of train, valid, test", printable(word));
}

// "running statistics of 6750 batches", or nothing for a model without BatchNorm.
std::string statistics_text(nn::Model& model, const std::string& source, int64_t batches, int64_t step) {
  nn::ModelState state;
  model.visit(state);
  const nn::BatchNorms norms = nn::batch_norms(state, step);
  if (norms.all == 0) return {};
  const std::string some = norms.own < norms.all ? fmt::format(" ({} of {}, the others are frozen)", norms.own, norms.all) : "";
  if (source == "batch") return fmt::format("its own statistics for each of {} evaluated batches{}", batches, some);
  if (source == "recalibrate") return fmt::format("statistics recalibrated on {} training batches{}", batches, some);
  int64_t most = 0;  // by those that training moved; where it moved none, by all
  for (const auto& [layer, facts] : state.layers)
    for (const nn::Buffer* b : state.buffers)
      if (b->name == layer + ".num_batches_tracked" && (norms.own == 0 || !nn::is_frozen(facts, step)))
        most = std::max(most, b->value.data<int64_t>()[0]);
  return fmt::format("running statistics from {} training batches", most);
}

// An evaluation says what it used, so where nothing but the running statistics can be used, others are refused.
void check_statistics(const Trained& t, const std::string& source) {
  if (source == "running") return;
  const models::ModelSettings& model = t.experiment.model;
  if (!model.has_batch_norm())
    fail(ExitCode::usage, "--batchnorm {}: the model has no BatchNorm ('model.norm.type' is layer_norm); leave the option out", source);
  const nn::BatchNormSettings& norm = model.batch_norm;
  if (norm.frozen(train::step_of(t.checkpoint)))
    fail(ExitCode::usage, "--batchnorm {}: '{}' keeps the model's BatchNorm at its running statistics; leave the option out, or add {}",
         source, norm.freeze ? "model.norm.freeze: true" : fmt::format("model.norm.freeze_from: {}", norm.freeze_from),
         norm.freeze ? "model.norm.freeze=false" : "model.norm.freeze_from=0");
  nn::ModelState state;
  t.model->visit(state);
  if (nn::batch_norms(state, train::step_of(t.checkpoint)).own == 0)
    fail(ExitCode::usage,
         "--batchnorm {}: 'train.frozen' keeps every BatchNorm at its running statistics; leave the option out, or add "
         "train.frozen=[]",
         source);
}

nlohmann::ordered_json json_of(const train::Metric& m) {
  return m.value ? nlohmann::ordered_json(*m.value) : nlohmann::ordered_json(nullptr);
}
std::string text_of(const train::Metric& m) { return m.value ? fmt::format("{:.6g}", *m.value) : "undefined"; }

nlohmann::ordered_json to_json(const Trained& t, const Options& o, const train::Evaluation& e, const std::string& statistics) {
  nlohmann::ordered_json j{
      {"checkpoint", t.file.string()}, {"step", train::step_of(t.checkpoint)}, {"split", o.split}, {"weights", t.weights}};
  if (!statistics.empty()) j["batchnorm"] = statistics;
  j["samples"] = e.samples;
  j["tokens"] = e.tokens;
  for (const train::Metric& m : e.values) j[m.name] = json_of(m);
  if (e.numbers && e.numbers->outputs() > 1)
    for (int k = 0; k < e.numbers->outputs(); ++k) {
      nlohmann::ordered_json target{{"target", t.description.target_names[static_cast<size_t>(k)]}};
      for (const train::Metric& m : e.numbers->values_of(k)) target[m.name] = json_of(m);
      j["targets"].push_back(std::move(target));
    }
  if (e.classes) {
    const int k = e.classes->classes();
    nlohmann::ordered_json matrix = nlohmann::ordered_json::array();
    for (int i = 0; i < k; ++i)
      matrix.push_back(std::vector<int64_t>(e.classes->confusion().begin() + i * k, e.classes->confusion().begin() + (i + 1) * k));
    j["labels"] = t.description.labels;
    j["confusion"] = matrix;
  }
  return j;
}

// A line with the names of the metrics, then one a target.
std::vector<std::vector<std::string>> rows_of_targets(const data::Description& d, const train::RegressionMetrics& numbers) {
  std::vector<std::vector<std::string>> rows{{"target"}};
  for (const train::Metric& m : numbers.values_of(0)) rows[0].push_back(m.name);
  for (int k = 0; k < numbers.outputs(); ++k) {
    rows.push_back({printable(d.target_names[static_cast<size_t>(k)])});
    for (const train::Metric& m : numbers.values_of(k)) rows.back().push_back(text_of(m));
  }
  return rows;
}

std::string text_of(const Trained& t, const train::Evaluation& e) {
  std::string text = fmt::format("samples {}\n", e.samples);
  for (const train::Metric& m : e.values) text += fmt::format("{} {}\n", m.name, text_of(m));
  if (e.numbers && e.numbers->outputs() > 1) return text + aligned(rows_of_targets(t.description, *e.numbers));
  if (!e.classes || e.classes->classes() > 30) return text;
  const size_t k = t.description.labels.size();
  std::vector<std::vector<std::string>> rows{{"target \\ prediction"}};
  for (const std::string& l : t.description.labels) rows[0].push_back(printable(l));
  for (size_t i = 0; i < k; ++i) {
    rows.push_back({printable(t.description.labels[i])});
    for (size_t c = 0; c < k; ++c) rows.back().push_back(fmt::format("{}", e.classes->confusion()[i * k + c]));
  }
  return text + aligned(rows);
}

// predictions.jsonl: a line a sample with what is predicted and what it should be, in the order of the part.
class PredictionFile {
 public:
  PredictionFile(const std::filesystem::path& file, const data::Description& description)
      : lines_(description, {.format = "jsonl", .proba = description.task == data::Task::classification, .targets = true}), file_(file) {}
  void add(std::vector<data::Sample>& samples, const data::Batch& batch, const Tensor& outputs) {
    std::vector<InputSample> named;
    for (data::Sample& sample : samples) named.push_back({.sample = std::move(sample), .where = {}});
    file_.write(lines_.lines(named, batch.packing, outputs));
  }
  void publish() { file_.publish(); }

 private:
  PredictionLines lines_;
  io::ReplacementFile file_;
};

// eval/<split>/ of the run that the checkpoint belongs to, made where it is missing; nothing for a checkpoint outside of a run.
std::optional<std::filesystem::path> directory_of(const Trained& t, const std::string& split) {
  if (t.file.parent_path().filename() != "checkpoints") return std::nullopt;
  const std::filesystem::path directory = t.file.parent_path().parent_path() / "eval" / split;
  train::make_directory(directory);
  return directory;
}

void write_files(const std::filesystem::path& directory, const Trained& t, const train::Evaluation& e, const nlohmann::ordered_json& j) {
  const auto write = [&](const char* name, const std::string& text) { train::write_whole(directory / name, text); };
  write("metrics.json", j.dump(2) + "\n");
  if (!e.classes) return;
  std::string confusion = "target", per_class = "label,support,predicted,precision,recall,f1\n";
  const auto& labels = t.description.labels;
  for (const std::string& l : labels) confusion += "," + io::csv_field(l);
  const std::vector<train::ClassificationMetrics::OfClass> classes = e.classes->per_class();
  const auto number = [](const std::optional<double>& x) { return x ? fmt::format("{}", *x) : std::string(); };
  for (size_t i = 0; i < labels.size(); ++i) {
    confusion += "\n" + io::csv_field(labels[i]);
    for (size_t c = 0; c < labels.size(); ++c) confusion += fmt::format(",{}", e.classes->confusion()[i * labels.size() + c]);
    per_class += fmt::format("{},{},{},{},{},{}\n", io::csv_field(labels[i]), classes[i].support, classes[i].predicted,
                             number(classes[i].precision), number(classes[i].recall), number(classes[i].f1));
  }
  write("confusion.csv", confusion + "\n");
  write("per_class.csv", per_class);
}

// What an evaluation reads and how; the rest is the model's. The keys beside data.path stand for parts that do not say their own, and a
// stored config says all: those of the parts are the ones that count.
constexpr std::string_view changeable[] = {
    "data.test.",      "data.valid.",      "data.train.",     "data.split.valid",  "data.split.test",
    "data.window.hop", "data.ignored_tag", "data.truncate",   "data.empty",        "eval.batch_size",
    "device.",         "train.batch_size", "train.precision", "model.norm.freeze", "model.norm.freeze_from",
    "train.frozen"};

void check_changes(const std::vector<std::string>& overrides) {
  check_overrides(overrides, "eval", changeable);
  for (const std::string& o : overrides) {
    const std::string key = o.substr(0, o.find('='));
    if (key.starts_with("data.split.") && o != key + "=0")
      fail(ExitCode::usage, "'{}': another split would score samples that the model was trained on; 0 leaves the part to a file of its own",
           printable(o));
    if (key.ends_with(".features")) fail(ExitCode::usage, "'{}': the features are those of the model, found by name", printable(o));
  }
}

ExitCode evaluate(Command& command, const Options& o) {
  const data::Part part = part_of(o.split);
  check_changes(o.overrides);
  std::vector<std::string> overrides = o.overrides;
  for (auto& flag : command.flag_overrides()) overrides.push_back(std::move(flag));
  Trained t = load_trained(o.run, o.weights, overrides, command.log);
  check_statistics(t, o.batchnorm);
  std::vector<data::Part> parts{part};
  if (o.batchnorm == "recalibrate" && part != data::Part::train) parts.push_back(data::Part::train);
  const auto dataset = datasets::open_dataset(t.experiment.data, {.known = &t.description, .parts = parts});
  if (dataset->size(part) == 0) fail(ExitCode::data, "the {} part has no samples; name another with --split", o.split);
  train::EvaluationSettings s{
      .on = t.on,
      .dtype = t.experiment.train.dtype,
      .batch_size = t.experiment.train.eval_batch_size > 0 ? t.experiment.train.eval_batch_size : t.experiment.train.batch_size,
      .step = train::step_of(t.checkpoint),
      .batchnorm = o.batchnorm == "batch" ? train::BatchNormSource::batch : train::BatchNormSource::running};
  if (o.batchnorm != "running")
    refuse_passes_over_one_row(*t.model, *dataset, o.batchnorm == "batch" ? part : data::Part::train, s.step, s.batch_size,
                               "choose another eval.batch_size, or --batchnorm running");
  const int64_t batches =
      o.batchnorm == "recalibrate" ? train::recalibrate(*t.model, *dataset, s) : (dataset->size(part) + s.batch_size - 1) / s.batch_size;
  const std::string statistics = statistics_text(*t.model, o.batchnorm, batches, s.step);
  command.log.info("{}: {} weights of step {}{}", printable(t.file.string()), t.weights, train::step_of(t.checkpoint),
                   statistics.empty() ? "" : "; BatchNorm: " + statistics);
  nn::ModelState state;
  t.model->visit(state);
  if (t.weights == "averaged" && o.batchnorm == "running" && nn::batch_norms(state, s.step).own > 0)
    command.log.warn("the running statistics are those of the raw weights; --batchnorm recalibrate makes them anew for the averaged ones");
  for (const std::string& line : dataset->report()) command.log.info("{}", line);
  const auto directory = directory_of(t, o.split);
  std::optional<io::DirectoryUse> use;
  std::optional<PredictionFile> predictions;
  if (directory) {
    use.emplace(*directory, io::one_of({"predictions.jsonl", "metrics.json", "confusion.csv", "per_class.csv"}));
    predictions.emplace(*directory / "predictions.jsonl", dataset->description());
    s.each_batch = [&](std::vector<data::Sample>& samples, const data::Batch& batch, const Tensor& outputs) {
      predictions->add(samples, batch, outputs);
    };
  }
  const auto evaluation = train::evaluate(*t.model, *dataset, part, s);
  const nlohmann::ordered_json j = to_json(t, o, *evaluation, statistics);
  if (directory) {
    predictions->publish();
    write_files(*directory, t, *evaluation, j);
  }
  return print_result(o.json ? j.dump(2) + "\n" : text_of(t, *evaluation));
}

}  // namespace

void add_eval(const Verb& program, Command& command) {
  auto o = std::make_shared<Options>();
  const Verb sub = program.verb("eval", "Metrics of a trained model on a part of its data");
  sub.option("RUN", o->run, "A run (its best checkpoint, or the last) or a checkpoint file").required();
  sub.option("OVERRIDES", o->overrides, "key.path=value (~key.path removes a key), for example data.test.path=new.tsv");
  sub.option("--split", o->split, "train, valid or test").one_of({"train", "valid", "test"});
  sub.option("--batchnorm", o->batchnorm,
             "running: frozen statistics; batch: of each batch; recalibrate: a pass over the training part first")
      .one_of({"running", "batch", "recalibrate"});
  sub.option("--weights", o->weights, "ema or raw; by default the averaged ones where averaging was on").one_of({"ema", "raw"});
  sub.flag("--json", o->json, "Print JSON");
  sub.runs([&command, o] { return evaluate(command, *o); });
}

}  // namespace tapeformer::tools
