// SPDX-License-Identifier: Apache-2.0
// `tapeformer data`: make synthetic data, convert data, and look at data before anything is trained on it.
#include <filesystem>

#include "datasets/listops.h"
#include "datasets/seq_dataset.h"
#include "datasets/statistics.h"
#include "tools/command.h"
#include "tools/experiment.h"
#include "tools/inspect_file.h"
#include "tools/standard_output.h"

namespace tapeformer::tools {
namespace {

struct Options {
  std::string generator, output, file, encoding;
  std::vector<std::string> words;  // CONFIG and overrides
  int64_t samples = 0;
  bool keys = false, json = false, compress = false;
};

// The generator's keys, from CONFIG where there is one; the published setting else.
ExitCode make(Command& command, const Options& options) {
  if (options.keys) {
    config::Document document = config::Document::empty();
    datasets::ListopsSettings::read(document.root());
    return print_result(document.reference());
  }
  if (options.output.empty()) fail(ExitCode::usage, "data make needs -o DIR, the directory to write");
  const bool has_config = !options.words.empty() && options.words[0].find('=') == std::string::npos && !options.words[0].starts_with('~');
  const std::vector<std::string> overrides(options.words.begin() + (has_config ? 1 : 0), options.words.end());
  config::Document document = has_config ? config::Document::load(options.words[0], overrides)
                                         : config::Document::from_text("{}\n", "defaults of " + options.generator, overrides);
  const auto settings = datasets::ListopsSettings::read(document.root());
  for (const std::string& warning : document.finish()) command.log.write(LogLevel::warn, warning);
  datasets::make_listops(settings, options.output);
  command.log.info("{}: train.tsv, valid.tsv and test.tsv with {}, {} and {} trees", printable(options.output), settings.train,
                   settings.valid, settings.test);
  return ExitCode::done;
}

datasets::DataSettings settings_of(Command& command, const Options& options) {
  std::vector<std::string> overrides(options.words.begin() + 1, options.words.end());
  for (auto& o : command.flag_overrides()) overrides.push_back(std::move(o));
  config::Document document = config::Document::load(options.words.at(0), overrides);
  document.allow_unavailable();  // data is prepared on another machine than it is trained on
  return read_experiment(document, command.log).data;
}

ExitCode stats(Command& command, const Options& options) {
  const auto dataset = datasets::open_dataset(settings_of(command, options));
  return print_result(datasets::statistics_text(*dataset) + datasets::inspect_text(*dataset, data::Part::train, options.samples));
}

ExitCode convert(Command& command, const Options& options) {
  if (options.output.empty()) fail(ExitCode::usage, "data convert needs -o FILE.h5, the file to write");
  const auto settings = settings_of(command, options);
  for (const data::Part part : {data::Part::train, data::Part::valid, data::Part::test}) {
    const std::string& source = settings.source(part).path;
    std::error_code missing;
    if (!source.empty() && std::filesystem::equivalent(source, options.output, missing))
      fail(ExitCode::resource, "{} is what 'data.{}' is read from; write to another file", printable(options.output), data::name_of(part));
  }
  if (options.compress)
    command.log.warn("a compressed file is smaller but slower to train from: each sample unpacks a chunk of 1 MiB, unless it is cached");
  for (const std::string& line : datasets::convert_to_hdf5(settings, options.output, options.compress)) command.log.info("{}", line);
  command.log.info("{}: written", printable(options.output));
  return ExitCode::done;
}

ExitCode inspect(Command&, const Options& options) {
  if (!std::filesystem::is_regular_file(options.file)) fail(ExitCode::data, "{}: no such file", printable(options.file));
  const FileKind kind = kind_of_file(options.file);
  if (!options.encoding.empty() && kind != FileKind::table)
    fail(ExitCode::usage, "--encoding {}: is how a csv, tsv or jsonl table is written, which {} is not; leave it out", options.encoding,
         printable(options.file));
  switch (kind) {
    case FileKind::table:
      return print_result(
          inspect_table(options.file, options.json, options.encoding == "latin-1" ? io::Encoding::latin1 : io::Encoding::utf8));
    case FileKind::hdf5:
      return print_result(inspect_hdf5(options.file, options.json));
    case FileKind::checkpoint:
      break;
  }
  fail(ExitCode::data, "{}: neither HDF5 nor a table whose name ends in csv, tsv or jsonl; for a checkpoint use `tapeformer inspect`",
       printable(options.file));
}

}  // namespace

void add_data(const Verb& program, Command& command) {
  auto options = std::make_shared<Options>();
  const Verb sub = program.verb("data", "Make, convert and look at data");
  sub.needs_verb();
  const auto add = [&](const char* name, const char* help, ExitCode (*run)(Command&, const Options&)) {
    const Verb verb = sub.verb(name, help);
    verb.runs([&command, options, run] { return run(command, *options); });
    return verb;
  };
  Verb verb = add("make", "Generate a synthetic data set: train.tsv, valid.tsv and test.tsv", make);
  verb.option("GENERATOR", options->generator, "listops").required().one_of({"listops"});
  verb.option("CONFIG", options->words, "A file with the generator's keys, if any; then overrides key=value");
  verb.option("-o,--output", options->output, "The directory to write");
  verb.flag("--keys", options->keys, "Print the generator's keys instead");
  verb = add("convert", "Write the data of a config as one packed HDF5 file", convert);
  verb.option("CONFIG", options->words, "A config file, then overrides key.path=value (~key.path removes a key)").required();
  verb.option("-o,--output", options->output, "The file to write; one that stands there is replaced");
  verb.flag("--compress", options->compress, "Deflate the numbers, in chunks of at least 1 MiB");
  verb = add("inspect", "Columns, rows, types and first rows of a table; groups and data sets of an HDF5 file", inspect);
  verb.option("FILE", options->file, "A csv, tsv, jsonl or HDF5 file").required();
  verb.option("--encoding", options->encoding, "Of a table: utf-8 or latin-1").one_of({"utf-8", "latin-1"});
  verb.flag("--json", options->json, "As one JSON object");
  verb = add("stats", "Read the data as training would: sizes, lengths, classes, vocabulary", stats);
  verb.option("CONFIG", options->words, "A config file, then overrides key.path=value (~key.path removes a key)").required();
  verb.option("--samples", options->samples, "Print the first samples of the training part too, as the model gets them").range(0, 1 << 20);
}

}  // namespace tapeformer::tools
