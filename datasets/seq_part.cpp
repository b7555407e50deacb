// SPDX-License-Identifier: Apache-2.0
#include "datasets/seq_part.h"

#include <algorithm>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/log.h"
#include "framework/data/encoder.h"

namespace tapeformer::datasets {
namespace {

constexpr int64_t piece_bytes = int64_t{8} << 20;

template <class T>
std::vector<T> vector_of(const io::Hdf5Dataset& dataset) {
  const Tensor t = dataset.read(dtype_of<T>());
  return {t.span<T>().begin(), t.span<T>().end()};
}

std::string attribute_text(const io::Hdf5File& file, const char* name) {
  const auto value = file.attribute("/", name);
  return value && std::holds_alternative<std::string>(*value) ? std::get<std::string>(*value) : std::string();
}

}  // namespace

bool is_marked(const io::Hdf5File& file) { return attribute_text(file, "encoding-type") == "seq-dataset"; }

void check_format(const io::Hdf5File& file, const std::string& path) {
  if (!is_marked(file)) return;
  const std::string version = attribute_text(file, "encoding-version");
  if (version == "1" || version.starts_with("1.")) return;
  fail(ExitCode::data,
       "{}: has the layout seq-dataset '{}'; this program reads versions 1.x; use a newer tapeformer, or write the file again",
       printable(path), printable(version));
}

SeqPaths own_paths(const io::Hdf5File& file, const std::string& path, const std::string& group) {
  const bool tokens = file.has(group + "/input_ids"), values = file.has(group + "/values"), dense = file.has(group + "/X");
  if (tokens + values + dense != 1) fail(ExitCode::data, "{}: {} needs exactly one of input_ids, values and X", printable(path), group);
  const std::string rows = group + (tokens ? "/input_ids" : values ? "/values" : "/X");
  const size_t axes = file.dataset(rows).sizes().size();
  if (!dense && axes != (tokens ? 1 : 2))
    fail(ExitCode::data, "{}: {} has {} axes, {} are expected", printable(path), rows, axes, tokens ? 1 : 2);
  const auto optional = [&](const char* name) { return file.has(group + name) ? group + name : std::string(); };
  return {group, rows, dense ? "" : group + "/offsets", group + "/labels", optional("/weights"), optional("/ids")};
}

SeqPart::SeqPart(const io::Hdf5File& file, std::string path, const SeqPaths& paths, data::Task task)
    : path_(std::move(path)), name_(paths.name) {
  read_offsets(file, paths);
  read_labels(file.dataset(paths.labels), task);
  if (!paths.weights.empty()) {
    const io::Hdf5Dataset weights = file.dataset(paths.weights);
    check_rows(weights, examples());
    weights_ = vector_of<float>(weights);
    for (int64_t i = 0; i < examples(); ++i)
      if (!data::is_usable(weight(i)) || weight(i) < 0)
        fail(ExitCode::data, "{}: the weight {}; it must be a finite number, at least 0", where(i), weight(i));
  }
  if (paths.ids.empty()) return;
  ids_ = file.dataset(paths.ids);
  check_rows(*ids_, examples());
  if (ids_->sizes().size() > 1 || ids_->kind() == io::Hdf5Kind::floating)
    fail(ExitCode::data, "{}: {} must hold a text or whole number for each example", printable(path_), ids_->path());
}

void SeqPart::check_rows(const io::Hdf5Dataset& dataset, int64_t rows) const {
  if (dataset.sizes().empty() || dataset.rows() != rows)
    fail(ExitCode::data, "{}: {} has {} rows, {} are expected", printable(path_), dataset.path(),
         dataset.sizes().empty() ? 0 : dataset.rows(), rows);
}

void SeqPart::read_offsets(const io::Hdf5File& file, const SeqPaths& paths) {
  rows_ = file.dataset(paths.rows);
  dense_ = paths.offsets.empty();
  const std::vector<int64_t>& sizes = rows_->sizes();
  const size_t rank = sizes.size(), least = dense_ ? 2 : 1;
  if (rows_->kind() == io::Hdf5Kind::text)
    fail(ExitCode::data, "{}: {} holds texts; numbers are expected", printable(path_), rows_->path());
  if (rank < least || rank > least + 1 || (rank > 1 && sizes.back() < 1))
    fail(ExitCode::data, "{}: {} has {} axes, {} or {} are expected{}", printable(path_), rows_->path(), rank, least, least + 1,
         rank > 1 && sizes.back() < 1 ? ", none of them empty" : "");
  if (rank == least + 1) features_ = sizes.back();
  else features_ = dense_ && rows_->kind() == io::Hdf5Kind::floating ? 1 : 0;
  if (dense_) {
    for (int64_t i = 0; i <= sizes[0]; ++i) offsets_.push_back(i * sizes[1]);
    return;
  }
  const io::Hdf5Dataset offsets = file.dataset(paths.offsets);
  if (offsets.sizes().size() != 1 || offsets.rows() < 1)
    fail(ExitCode::data, "{}: {} must be a vector of at least one number", printable(path_), offsets.path());
  offsets_ = vector_of<int64_t>(offsets);
  for (size_t i = 0; i < offsets_.size(); ++i)
    if (offsets_[i] < (i ? offsets_[i - 1] : 0) || (i == 0 && offsets_[0] != 0))
      fail(ExitCode::data, "{}: {}[{}] is {}; offsets begin with 0 and never fall", printable(path_), offsets.path(), i, offsets_[i]);
  if (offsets_.back() != rows_->rows())
    fail(ExitCode::data, "{}: {} ends with {}, but {} has {} rows", printable(path_), offsets.path(), offsets_.back(), rows_->path(),
         rows_->rows());
}

void SeqPart::read_labels(io::Hdf5Dataset labels, data::Task task) {
  if (task == data::Task::tagging) {
    if (dense_)
      fail(ExitCode::data, "{}: {}: tagging needs rows with offsets, in the layout of tapeformer", printable(path_), rows_->path());
    check_rows(labels, offsets_.back());
    tags_ = std::move(labels);
    return;
  }
  check_rows(labels, examples());
  const size_t rank = labels.sizes().size();
  if (rank > 2 || (rank == 2 && task == data::Task::classification && labels.sizes()[1] != 1))
    fail(ExitCode::data, "{}: {} has {} axes, too many for data.task", printable(path_), labels.path(), rank);
  if (task == data::Task::regression) {
    target_size_ = rank == 2 ? labels.sizes()[1] : 1;
    targets_ = vector_of<float>(labels);
    for (size_t i = 0; i < targets_.size(); ++i)
      if (!data::is_usable(targets_[i]))
        fail(ExitCode::data, "{}: the target {} is no finite number", where(static_cast<int64_t>(i) / target_size_), targets_[i]);
  } else if (labels.kind() == io::Hdf5Kind::text) {
    label_texts_ = labels.texts();
  } else {
    labels_ = vector_of<int32_t>(labels);
  }
}

void SeqPart::tokens(int64_t example, int64_t first, int64_t count, std::vector<int32_t>& out) const {
  const size_t before = out.size();
  if (dense_) {
    const Tensor whole = rows_->read_rows(example, 1, Dtype::i32);
    out.insert(out.end(), whole.data<int32_t>() + first, whole.data<int32_t>() + first + count);
    return;
  }
  out.resize(before + static_cast<size_t>(count));
  rows_->read_rows(offsets_[static_cast<size_t>(example)] + first, count, Dtype::i32, out.data() + before);
}

void SeqPart::values(int64_t example, int64_t first, int64_t count, std::vector<double>& out) const {
  const size_t before = out.size();
  if (dense_) {
    const Tensor whole = rows_->read_rows(example, 1, Dtype::f64);
    const double* from = whole.data<double>() + first * features_;
    out.insert(out.end(), from, from + count * features_);
    return;
  }
  out.resize(before + static_cast<size_t>(count * features_));
  rows_->read_rows(offsets_[static_cast<size_t>(example)] + first, count, Dtype::f64, out.data() + before);
}

void SeqPart::tags(int64_t example, int64_t first, int64_t count, std::vector<int32_t>& out) const {
  const size_t before = out.size();
  out.resize(before + static_cast<size_t>(count));
  tags_->read_rows(offsets_[static_cast<size_t>(example)] + first, count, Dtype::i32, out.data() + before);
}

std::string SeqPart::id(int64_t example) const {
  if (!ids_) return std::to_string(example + 1);
  return ids_->kind() == io::Hdf5Kind::text ? ids_->texts(example, 1)[0]
                                            : std::to_string(ids_->read_rows(example, 1, Dtype::i64).data<int64_t>()[0]);
}

std::string SeqPart::where(int64_t example) const { return fmt::format("{}: {}, example {}", printable(path_), name_, example + 1); }

// In random order nearly every sample unpacks a chunk of its own, unless all of them fit the cache of HDF5.
std::string SeqPart::chunk_warning(int64_t samples, int64_t rows) const {
  constexpr int64_t cache = int64_t{32} << 20, good = int64_t{1} << 18;
  const io::Hdf5Dataset& d = *rows_;
  if (!d.chunk() || samples == 0 || d.rows() * d.row_bytes() <= cache) return {};
  const int64_t bytes = (*d.chunk())[0] * d.row_bytes();
  const int64_t sample = rows / samples * d.row_bytes() / (d.sizes().size() > 1 && dense_ ? d.sizes()[1] : 1);
  if (bytes <= 16 * std::max(sample, good)) return {};
  return fmt::format(
      "warning: {}: {} is stored in chunks of {} rows, {} MiB; each sample may unpack a whole one. Store it again contiguous (h5repack -l "
      "{}:CONTI -f {}:NONE) or in chunks of about {} rows",
      printable(path_), d.path(), (*d.chunk())[0], bytes >> 20, d.path(), d.path(),
      std::max<int64_t>(1, (good + d.row_bytes() - 1) / d.row_bytes()));
}

template <class T>
void SeqPart::each_piece(const io::Hdf5Dataset& dataset, int64_t columns,
                         const std::function<void(int64_t, int64_t, int64_t, const T*)>& visit) const {
  const int64_t in_row = dense_ ? dataset.sizes()[1] : 1;  // our rows in a row of the data set
  const int64_t step = std::max<int64_t>(1, piece_bytes / static_cast<int64_t>(sizeof(T)) / std::max<int64_t>(1, columns * in_row));
  int64_t example = 0;
  for (int64_t at = 0; at < dataset.rows(); at += step) {
    const int64_t count = std::min(step, dataset.rows() - at);
    const Tensor piece = dataset.read_rows(at, count, dtype_of<T>());
    const int64_t end = (at + count) * in_row;
    for (int64_t row = at * in_row; row < end;) {
      while (offsets_[static_cast<size_t>(example) + 1] <= row) ++example;
      const int64_t first = offsets_[static_cast<size_t>(example)], last = std::min(end, offsets_[static_cast<size_t>(example) + 1]);
      visit(example, row - first, last - row, piece.data<T>() + (row - at * in_row) * columns);
      row = last;
    }
  }
}

void SeqPart::each_tokens(const std::function<void(int64_t, int64_t, int64_t, const int32_t*)>& visit) const {
  each_piece<int32_t>(*rows_, 1, visit);
}
void SeqPart::each_values(const std::function<void(int64_t, int64_t, int64_t, const double*)>& visit) const {
  each_piece<double>(*rows_, features_, visit);
}
void SeqPart::each_tags(const std::function<void(int64_t, int64_t, int64_t, const int32_t*)>& visit) const {
  each_piece<int32_t>(*tags_, 1, visit);
}

}  // namespace tapeformer::datasets
