// SPDX-License-Identifier: Apache-2.0
// One part of a "seq-dataset" file: where its sequences lie, its labels, and pieces of its rows on demand.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/data/dataset.h"
#include "framework/io/hdf5.h"

namespace tapeformer::datasets {

// True for a file that says it is a "seq-dataset", as data convert writes it.
bool is_marked(const io::Hdf5File&);
// Error(data) for one of a version that this program does not know. Later minor versions only add.
void check_format(const io::Hdf5File&, const std::string& path);

// Where the data sets of a part are; an empty path where there is none.
struct SeqPaths {
  std::string name;     // of the part in messages: "/train", "/X"
  std::string rows;     // tokens [T], values [T, F]; without offsets tokens [N, L], values [N, L, F] or [N, L]
  std::string offsets;  // [N + 1]
  std::string labels, weights, ids;
};
// Of a group in our own layout.
SeqPaths own_paths(const io::Hdf5File& file, const std::string& path, const std::string& group);

class SeqPart {
 public:
  // Checks sizes and offsets; `file` must outlive the part.
  SeqPart(const io::Hdf5File& file, std::string path, const SeqPaths& paths, data::Task task);

  int64_t examples() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  int64_t length(int64_t example) const { return offsets_[static_cast<size_t>(example) + 1] - offsets_[static_cast<size_t>(example)]; }
  bool numeric() const { return features_ > 0; }
  int64_t features() const { return features_; }
  bool dense() const { return dense_; }
  // Rows [first, first + count) of one example.
  void tokens(int64_t example, int64_t first, int64_t count, std::vector<int32_t>& out) const;
  void values(int64_t example, int64_t first, int64_t count, std::vector<double>& out) const;
  void tags(int64_t example, int64_t first, int64_t count, std::vector<int32_t>& out) const;
  // Classes; empty for other tasks and for files with texts as labels, which are in label_texts().
  const std::vector<int32_t>& labels() const { return labels_; }
  const std::vector<std::string>& label_texts() const { return label_texts_; }
  const std::vector<float>& targets() const { return targets_; }  // [examples, K]
  int64_t target_size() const { return target_size_; }
  float weight(int64_t example) const { return weights_.empty() ? 1 : weights_[static_cast<size_t>(example)]; }
  std::string id(int64_t example) const;
  // What is to be said where reading `samples` of together `rows` rows in random order would unpack much more than that; else empty.
  std::string chunk_warning(int64_t samples, int64_t rows) const;
  // "data/x.h5: /train, example 17"
  std::string where(int64_t example) const;

  // All rows in pieces: visit(example, row in the example, number of rows, pointer to the first).
  void each_tokens(const std::function<void(int64_t, int64_t, int64_t, const int32_t*)>& visit) const;
  void each_values(const std::function<void(int64_t, int64_t, int64_t, const double*)>& visit) const;
  void each_tags(const std::function<void(int64_t, int64_t, int64_t, const int32_t*)>& visit) const;

 private:
  void read_offsets(const io::Hdf5File& file, const SeqPaths& paths);
  void read_labels(io::Hdf5Dataset labels, data::Task task);
  void check_rows(const io::Hdf5Dataset& dataset, int64_t rows) const;
  template <class T>
  void each_piece(const io::Hdf5Dataset& dataset, int64_t columns,
                  const std::function<void(int64_t, int64_t, int64_t, const T*)>& visit) const;

  std::string path_, name_;
  std::optional<io::Hdf5Dataset> rows_, tags_, ids_;
  bool dense_ = false;    // [examples, length, features] or [examples, length]
  int64_t features_ = 0;  // 0: tokens
  std::vector<int64_t> offsets_;
  std::vector<int32_t> labels_;
  std::vector<std::string> label_texts_;
  std::vector<float> targets_, weights_;
  int64_t target_size_ = 0;
};

}  // namespace tapeformer::datasets
