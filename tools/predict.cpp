// SPDX-License-Identifier: Apache-2.0
// `tapeformer predict`: labels, numbers or tags for new samples, a line each, in the order of the input.
#include <filesystem>

#include "framework/data/batch.h"
#include "tools/command.h"
#include "tools/experiment.h"
#include "tools/overrides.h"
#include "tools/predict_input.h"
#include "tools/predict_output.h"
#include "tools/standard_output.h"

namespace tapeformer::tools {
namespace {

struct Options {
  std::string model, weights, input_kind;
  std::vector<std::string> words;  // FILE and overrides
  InputSettings input;
  OutputSettings output;
  int64_t batch_size = 64;
};

class Predictor {
 public:
  Predictor(Trained& trained, const OutputSettings& output) : trained_(trained), lines_(trained.description, output) {}

  std::string header() const { return lines_.header(); }
  std::string predict(const std::vector<InputSample>& inputs) {
    std::vector<data::Sample> samples;
    std::vector<uint32_t> ids;
    for (const InputSample& input : inputs) {
      samples.push_back(input.sample);
      ids.push_back(count_++);
    }
    const data::Batch batch = data::collate(trained_.description, samples, std::move(ids));
    Context context{.on = trained_.on, .mode = Mode::evaluate, .dtype = trained_.experiment.train.dtype};
    return lines_.lines(inputs, batch.packing, trained_.model->forward(context, batch).value);
  }
  uint32_t count() const { return count_; }

 private:
  Trained& trained_;
  PredictionLines lines_;
  uint32_t count_ = 0;
};

// Batches of samples as they come: a batch goes out when it is full or nothing more is there yet. False when nobody reads the results.
bool predict_all(Predictor& predictor, SampleInput& input, size_t batch_size) {
  std::vector<InputSample> batch;
  const auto flush = [&] {
    if (batch.empty()) return true;
    const std::string text = predictor.predict(batch);
    batch.clear();
    return write_out(text);
  };
  if (!write_out(predictor.header())) return false;
  try {
    for (InputSample sample; input.next(sample);) {
      batch.push_back(std::move(sample));
      if ((batch.size() >= batch_size || !input.ready()) && !flush()) return false;
    }
  } catch (const Error& e) {
    if (e.code() == ExitCode::data && !flush()) return false;  // what stands before a faulty row is not lost
    throw;
  }
  return flush();
}

void report(Log& log, const Predictor& predictor, const SampleInput& input, const data::SampleEncoder& encoder,
            const data::Description& d) {
  log.info("{} samples predicted{}", predictor.count(),
           input.skipped() > 0 ? fmt::format(", {} empty ones left out", input.skipped()) : "");
  if (const std::string note = input.note(); !note.empty()) log.info("{}", note);
  if (encoder.tokens_unknown() > 0)
    log.info("{} of {} tokens unknown ({:.3g} %)", encoder.tokens_unknown(), encoder.tokens_seen(),
             100.0 * static_cast<double>(encoder.tokens_unknown()) / static_cast<double>(encoder.tokens_seen()));
  if (encoder.truncated() > 0) log.info("{} sequences cut to {} rows", encoder.truncated(), d.max_length);
  if (encoder.missing() > 0) log.info("{} missing numbers", encoder.missing());
}

ExitCode predict(Command& command, Options& options) {
  auto [overrides, file] = sorted_words(options.words);
  check_overrides(overrides, "predict", sample_keys);
  if (!file.empty()) options.input.file = file;
  options.input.kind = input_kind(options.input_kind, options.input.file);
  for (std::string& flag : command.flag_overrides()) overrides.push_back(std::move(flag));
  Trained trained = load_trained(options.model, options.weights, overrides, command.log);
  command.log.info("{} weights of {}, step {}", trained.weights, printable(trained.file.string()), train::step_of(trained.checkpoint));
  trained.checkpoint = {};
  if (const int folded = trained.model->prepare_inference(); folded > 0) command.log.info("{} BatchNorm layers folded", folded);
  Predictor predictor(trained, options.output);
  data::SampleEncoder encoder(trained.description);
  const auto input = open_input(options.input, trained.experiment.data, trained.description, encoder, command.log);
  if (predict_all(predictor, *input, static_cast<size_t>(options.batch_size)))
    report(command.log, predictor, *input, encoder, trained.description);
  return ExitCode::done;
}

}  // namespace

void add_predict(const Verb& program, Command& command) {
  auto options = std::make_shared<Options>();
  const Verb sub = program.verb("predict", "Predict new samples with a run or checkpoint; results on standard output");
  sub.option("RUN", options->model, "A run (its best checkpoint, or the last) or a checkpoint file").required();
  sub.option("FILE", options->words,
             "What to predict, or - for standard input (the default): one sample a line; and overrides key.path=value of what becomes of "
             "long and empty samples (data.truncate=right, data.empty=skip)");
  sub.option("--input", options->input_kind, "text, csv, tsv, jsonl; by the file's ending unless given, text from standard input")
      .one_of({"text", "csv", "tsv", "jsonl"});
  sub.option("--format", options->output.format, "Of the results: csv, tsv, jsonl").one_of({"csv", "tsv", "jsonl"});
  sub.option("--weights", options->weights, "ema or raw; the averaged ones where there are any unless given").one_of({"ema", "raw"});
  sub.option("--encoding", options->input.encoding, "Of the input: utf-8 or latin-1; a table's as in the config unless given")
      .one_of({"utf-8", "latin-1"});
  sub.option("--batch-size", options->batch_size, "Samples computed together").range(1, 1 << 20);
  sub.option("--topk", options->output.topk, "Classification: the K most probable classes too").range(1, 1 << 20);
  sub.flag("--proba", options->output.proba, "Classification: the probability of every class too");
  sub.option("--id", options->input.id, "The column that names a sample; the row number unless given here or in the config");
  sub.runs([&command, options] { return predict(command, *options); });
}

}  // namespace tapeformer::tools
