// SPDX-License-Identifier: Apache-2.0
#include "tools/predict_input.h"

#include <algorithm>
#include <filesystem>

#include "datasets/table.h"
#include "framework/io/line_reader.h"
#include "framework/io/text.h"

namespace tapeformer::tools {
namespace {

constexpr const char* standard_input = "/dev/stdin";

// One sample a line.
class TextInput : public SampleInput {
 public:
  TextInput(const InputSettings& settings, const data::Description& description, data::SampleEncoder& encoder)
      : reader_(settings.file == "-" ? standard_input : settings.file),
        name_(settings.file == "-" ? "standard input" : printable(settings.file)),
        latin1_(settings.encoding == "latin-1"),
        tagging_(description.task == data::Task::tagging),
        encoder_(encoder) {}

  bool next(InputSample& out) override {
    for (std::string line; reader_.next(line); ++skipped_) {
      out = {.sample = {}, .where = fmt::format("{}:{}", name_, reader_.line())};
      out.sample.id = std::to_string(reader_.line());
      if (latin1_) line = io::utf8_from_latin1(line);
      else if (const auto bad = io::first_invalid_utf8(line))
        fail(ExitCode::data, "{}: byte {} of the line, 0x{:02x}, is not UTF-8; if the text is Latin-1, say --encoding latin-1", out.where,
             *bad + 1, static_cast<unsigned char>(line[*bad]));
      if (tagging_) encoder_.encode_tokens(words_.split(line), out.where, out.sample);
      else encoder_.encode_text(line, out.where, out.sample);
      if (!out.sample.tokens.empty()) return true;
    }
    return false;
  }
  bool ready() override { return reader_.ready(); }

 private:
  io::LineReader reader_;
  std::string name_;
  bool latin1_, tagging_;
  data::Tokenizer words_{{.kind = data::TokenizerKind::whitespace}};
  data::SampleEncoder& encoder_;
};

// One sample a row.
class TableInput : public SampleInput {
 public:
  TableInput(const InputSettings& settings, const datasets::DataSettings& data, const data::Description& description,
             data::SampleEncoder& encoder, Log& log)
      : source_(input_source(settings, data)), tagging_(description.task == data::Task::tagging), encoder_(encoder) {
    table_ = datasets::Table::open(source_, input_format(settings.kind));
    column_ = table_->column(tagging_ ? source_.tokens : source_.text);
    named_ = has_id(table_->columns(), settings, source_, log);
    if (named_) id_ = table_->column(source_.id);
  }

  bool next(InputSample& out) override {
    for (; table_->next(); ++skipped_) {
      table_->need(column_);
      out = {.sample = {}, .where = table_->where()};
      out.sample.id = named_ ? table_->text(id_) : std::to_string(table_->row());
      if (tagging_) encoder_.encode_tokens(table_->words(column_), table_->where(column_), out.sample);
      else encoder_.encode_text(table_->text(column_), table_->where(column_), out.sample);
      if (!out.sample.tokens.empty()) return true;
    }
    return false;
  }
  bool ready() override { return table_->ready(); }

 private:
  datasets::Source source_;
  bool tagging_, named_ = false;
  data::SampleEncoder& encoder_;
  std::unique_ptr<datasets::Table> table_;
  size_t column_ = 0, id_ = 0;
};

}  // namespace

InputKind input_kind(const std::string& word, const std::string& file) {
  if (word == "csv") return InputKind::csv;
  if (word == "tsv") return InputKind::tsv;
  if (word == "jsonl") return InputKind::jsonl;
  if (word == "text" || file == "-") return InputKind::text;
  const std::string extension = std::filesystem::path(file).extension().string();
  if (extension == ".csv") return InputKind::csv;
  if (extension == ".tsv" || extension == ".tab") return InputKind::tsv;
  if (extension == ".jsonl" || extension == ".ndjson") return InputKind::jsonl;
  if (extension == ".h5" || extension == ".hdf5")
    fail(ExitCode::usage, "{}: samples are read from text, csv, tsv and jsonl, not from HDF5", printable(file));
  return InputKind::text;
}

datasets::Source input_source(const InputSettings& settings, const datasets::DataSettings& data) {
  datasets::Source source = data.test.given() ? data.test : data.train;
  source.path = settings.file == "-" ? standard_input : settings.file;
  if (!settings.id.empty()) source.id = settings.id;
  if (!settings.encoding.empty()) source.encoding = settings.encoding == "latin-1" ? io::Encoding::latin1 : io::Encoding::utf8;
  return source;
}

datasets::Format input_format(InputKind kind) {
  return kind == InputKind::csv ? datasets::Format::csv : kind == InputKind::tsv ? datasets::Format::tsv : datasets::Format::jsonl;
}

bool has_id(const std::vector<std::string>& columns, const InputSettings& settings, const datasets::Source& source, Log& log) {
  if (source.id.empty()) return false;
  if (!settings.id.empty() || std::find(columns.begin(), columns.end(), source.id) != columns.end()) return true;
  log.info("{}: no column '{}', which the config names as data.id: samples are named by their rows", printable(source.path),
           printable(source.id));
  return false;
}

std::unique_ptr<SampleInput> open_input(const InputSettings& settings, const datasets::DataSettings& data,
                                        const data::Description& description, data::SampleEncoder& encoder, Log& log) {
  const bool text = settings.kind == InputKind::text;
  if (text && !settings.id.empty())
    fail(ExitCode::usage, "--id names a column, and lines of text have none; say --input csv, tsv or jsonl");
  if (text && description.vocab_size == 0)
    fail(ExitCode::usage, "the model reads sequences of {} numbers a row, not text; give a table and say --input csv, tsv or jsonl",
         encoder.raw_features());
  if (text) return std::make_unique<TextInput>(settings, description, encoder);
  if (description.vocab_size == 0) return open_series_input(settings, data, description, encoder, log);
  return std::make_unique<TableInput>(settings, data, description, encoder, log);
}

}  // namespace tapeformer::tools
