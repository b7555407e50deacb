// SPDX-License-Identifier: Apache-2.0
// Samples to predict, from lines of text or from a table with the columns that the model was trained on; targets are not needed.
#pragma once
#include <memory>
#include <string>

#include "datasets/settings.h"
#include "framework/core/log.h"
#include "framework/data/encoder.h"

namespace tapeformer::tools {

enum class InputKind : uint8_t { text, csv, tsv, jsonl };

struct InputSettings {
  std::string file = "-";  // "-": standard input
  InputKind kind = InputKind::text;
  std::string id;        // the column that names a sample; empty: the model's own, else the row number
  std::string encoding;  // "utf-8", "latin-1"; empty: of a table as in the model's config, of text utf-8
};

struct InputSample {
  data::Sample sample;  // its id is a name or a row number
  std::string where;
};

class SampleInput {
 public:
  virtual ~SampleInput() = default;
  // The next sample, encoded; false at the end. Empty samples that the model's policy skips are passed over.
  virtual bool next(InputSample&) = 0;
  // False when the next sample would have to be waited for.
  virtual bool ready() = 0;
  int64_t skipped() const { return skipped_; }
  // What is to be said when all is predicted; empty: nothing.
  virtual std::string note() const { return {}; }

 protected:
  int64_t skipped_ = 0;
};

// The settings and the encoder must outlive the input.
std::unique_ptr<SampleInput> open_input(const InputSettings&, const datasets::DataSettings&, const data::Description&, data::SampleEncoder&,
                                        Log&);
// Sequences of numbers from a long table.
std::unique_ptr<SampleInput> open_series_input(const InputSettings&, const datasets::DataSettings&, const data::Description&,
                                               data::SampleEncoder&, Log&);

// The kind that the word names, or by the file's ending; text from standard input. Error(usage) for HDF5.
InputKind input_kind(const std::string& word, const std::string& file);

// The source that says what the columns are called, with the file to read in place of its own; the format of a table.
datasets::Source input_source(const InputSettings&, const datasets::DataSettings&);
datasets::Format input_format(InputKind);
// The id column: as asked for, else the model's own where the table has it.
bool has_id(const std::vector<std::string>& columns, const InputSettings&, const datasets::Source&, Log&);

}  // namespace tapeformer::tools
