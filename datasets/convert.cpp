// SPDX-License-Identifier: Apache-2.0
// Writes any data set in the layout "seq-dataset" 1, sample by sample: what is in memory at a time does not grow with the texts.
#include <fmt/format.h>

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "datasets/seq_dataset.h"
#include "datasets/text_table.h"
#include "framework/core/error.h"
#include "framework/core/host.h"
#include "framework/core/version.h"
#include "framework/io/durable_file.h"
#include "framework/io/hdf5.h"

namespace tapeformer::datasets {
namespace {

using data::Part;
using data::Task;

int64_t raw_features(const data::Description& d) { return d.missing == data::Missing::zero_with_flag ? d.features() / 2 : d.features(); }

// Values as the file they came from had them: not standardised, missing ones as NaN, without the flags.
std::vector<float> raw_values(const data::Description& d, const std::vector<float>& values) {
  const auto all = static_cast<size_t>(d.features()), raw = static_cast<size_t>(raw_features(d));
  const double* mean = d.feature_mean.defined() ? d.feature_mean.data<double>() : nullptr;
  std::vector<float> out;
  for (size_t row = 0; row < values.size(); row += all)
    for (size_t f = 0; f < raw; ++f) {
      const float x = values[row + f];
      if (all > raw && values[row + raw + f] != 0) out.push_back(std::numeric_limits<float>::quiet_NaN());
      else out.push_back(mean ? static_cast<float>(x * d.feature_deviation.data<double>()[f] + mean[f]) : x);
    }
  return out;
}

// One data set of a part, gathered and written in pieces.
template <class T>
class Column {
 public:
  explicit Column(io::Hdf5Rows rows, int64_t width = 1) : rows_(std::move(rows)), width_(static_cast<size_t>(width)) {}
  void add(const std::vector<T>& values) {
    waiting_.insert(waiting_.end(), values.begin(), values.end());
    const auto piece = static_cast<size_t>(rows_.piece());
    flush(waiting_.size() / width_ / piece * piece);
  }
  void finish() { flush(waiting_.size() / width_); }

 private:
  void flush(size_t rows) {
    if (rows == 0) return;
    if constexpr (std::is_same_v<T, std::string>) {
      rows_.append(waiting_);
      waiting_.clear();
    } else {
      rows_.append(waiting_.data(), static_cast<int64_t>(rows));
      waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(rows * width_));
    }
  }

  io::Hdf5Rows rows_;
  size_t width_;
  std::vector<T> waiting_;
};

// One part of the file, filled sample by sample.
class PartWriter {
 public:
  PartWriter(io::Hdf5File& file, const data::Dataset& dataset, Part part, io::Hdf5File::Storage storage)
      : file_(file), description_(dataset.description()), group_(fmt::format("/{}/", name_of(part))), storage_(storage) {
    samples_ = dataset.size(part);
    for (int64_t i = 0; i < samples_; ++i) rows_ += dataset.length(part, i);
    const data::Description& d = description_;
    const auto n = samples_;
    if (d.vocab_size > 0) tokens_.emplace(numbers("input_ids", Dtype::i32, {rows_}, {"token"}));
    else values_.emplace(numbers("values", Dtype::f32, {rows_, raw_features(d)}, {"row", "feature"}), raw_features(d));
    offsets_.emplace(numbers("offsets", Dtype::i64, {n + 1}, {"example"}));
    if (d.task == Task::regression) targets_.emplace(numbers("labels", Dtype::f32, {n, d.outputs()}, {"example", "target"}), d.outputs());
    else if (d.task == Task::classification) labels_.emplace(numbers("labels", Dtype::i32, {n}, {"example"}));
    else labels_.emplace(numbers("labels", Dtype::i32, {rows_}, {d.vocab_size > 0 ? "token" : "row"}));
    weights_.emplace(numbers("weights", Dtype::f32, {n}, {"example"}));
    ids_.emplace(file_.write_text_rows(group_ + "ids", n));
    file_.write_axis_labels(group_ + "ids", {"example"});
    file_.write_attribute(group_.substr(0, group_.size() - 1), "num_examples", n);
    offsets_->add({0});
  }

  void add(const data::Sample& s) {
    const data::Description& d = description_;
    rows_written_ += d.vocab_size > 0 ? static_cast<int64_t>(s.tokens.size()) : static_cast<int64_t>(s.values.size()) / d.features();
    if (++samples_written_ > samples_ || rows_written_ > rows_) changed();
    if (tokens_) tokens_->add(s.tokens);
    else values_->add(raw_values(d, s.values));
    offsets_->add({rows_written_});
    if (targets_) targets_->add(s.target);
    else labels_->add(d.task == Task::classification ? std::vector<int32_t>{s.label} : s.tags);
    weights_->add({s.weight});
    ids_->add({s.id});
  }

  void finish() {
    if (samples_written_ != samples_ || rows_written_ != rows_) changed();
    const auto end = [](auto& column) {
      if (column) column->finish();
    };
    end(tokens_), end(values_), end(offsets_), end(labels_), end(targets_), end(weights_), end(ids_);
  }

 private:
  io::Hdf5Rows numbers(const char* name, Dtype dtype, const Shape& shape, const std::vector<std::string>& axes) {
    io::Hdf5Rows rows = file_.write_rows(group_ + name, dtype, shape, storage_);
    file_.write_axis_labels(group_ + name, axes);
    return rows;
  }
  [[noreturn]] void changed() const {
    fail(ExitCode::data, "the data changed while it was converted: {} has {} samples of {} rows together now, {} of {} when it was counted",
         group_.substr(1, group_.size() - 2), samples_written_, rows_written_, samples_, rows_);
  }

  io::Hdf5File& file_;
  const data::Description& description_;
  std::string group_;
  io::Hdf5File::Storage storage_;
  int64_t samples_ = 0, rows_ = 0, samples_written_ = 0, rows_written_ = 0;
  std::optional<Column<int32_t>> tokens_, labels_;
  std::optional<Column<float>> values_, targets_, weights_;
  std::optional<Column<int64_t>> offsets_;
  std::optional<Column<std::string>> ids_;
};

void write_about(io::Hdf5File& file, const data::Description& d, const Window& window) {
  file.write_attribute("/", "encoding-type", std::string("seq-dataset"));
  file.write_attribute("/", "encoding-version", std::string("1.0"));
  file.write_attribute("/", "task", std::string(name_of(d.task)));
  file.write_attribute("/", "creator", std::string("tapeformer " TAPEFORMER_VERSION));
  file.write_attribute("/", "created", creation_time());
  file.write_attribute("/", "source_fingerprint", d.fingerprint);
  file.write_attribute("/", "vocab_size", d.vocab_size);
  file.write_attribute("/", "max_length", d.max_length);
  if (window.length > 0) file.write_attribute("/", "window_length", window.length);
  if (window.length > 0) file.write_attribute("/", "window_hop", window.hop);
  const auto names = [&](const char* name, const std::vector<std::string>& texts, const char* axis) {
    file.write_texts(name, texts);
    file.write_axis_labels(name, {axis});
  };
  if (d.task == Task::regression) names("/target_names", d.target_names, "target");
  else names("/label_names", d.labels, "class");
  if (d.vocab_size > 0) file.write_text("/tokenizer_json", d.tokenizer_json);
  else names("/feature_names", {d.feature_names.begin(), d.feature_names.begin() + raw_features(d)}, "feature");
}

using Take = std::function<void(Part, const data::Sample&)>;

// The file under another name, filled by `give`, then renamed. `outline` says what will come.
void write_file(const data::Dataset& outline, const std::filesystem::path& path, bool compress, const Window& window,
                const std::function<void(const Take&)>& give) {
  io::ReplacementFile replacement(path);
  io::Hdf5File file = io::Hdf5File::create(replacement.temporary());
  write_about(file, outline.description(), window);
  std::map<Part, PartWriter> writers;
  for (const Part part : {Part::train, Part::valid, Part::test})
    if (outline.size(part) > 0)
      writers.try_emplace(part, file, outline, part, compress ? io::Hdf5File::Storage::deflated : io::Hdf5File::Storage::contiguous);
  give([&](Part part, const data::Sample& sample) { writers.at(part).add(sample); });
  for (auto& [part, writer] : writers) writer.finish();
  writers.clear();
  file.close();
  replacement.publish();
}

void give_each(const data::Dataset& dataset, const Take& take) {
  data::Sample sample;
  for (const Part part : {Part::train, Part::valid, Part::test})
    for (int64_t i = 0; i < dataset.size(part); ++i) {
      dataset.read(part, i, sample);
      take(part, sample);
    }
}

}  // namespace

void convert_to_hdf5(const data::Dataset& dataset, const std::filesystem::path& path, bool compress, const Window& window) {
  write_file(dataset, path, compress, window, [&](const Take& take) { give_each(dataset, take); });
}

std::vector<std::string> convert_to_hdf5(const DataSettings& settings, const std::filesystem::path& path, bool compress) {
  if (!is_text_table(settings)) {
    DataSettings unchanged = settings;
    unchanged.standardize = false;  // whoever reads the file does that, from the same numbers
    const auto dataset = open_dataset(unchanged);
    convert_to_hdf5(*dataset, path, compress, settings.window);
    return dataset->report();
  }
  const auto outline = open_dataset(settings, {.stream = [](Part, const data::Sample&) {}});
  write_file(*outline, path, compress, Window(),
             [&](const Take& take) { open_dataset(settings, {.known = &outline->description(), .stream = take}); });
  return outline->report();
}

}  // namespace tapeformer::datasets
