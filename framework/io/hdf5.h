// SPDX-License-Identifier: Apache-2.0
// HDF5 files through move-only objects: data sets read as our dtypes from any width and byte order, strings of every kind as UTF-8,
// attributes as one variant. Links out of the file, virtual data sets and filters that are not built in are refused by name.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/tensor.h"

namespace tapeformer::io {

using Attribute = std::variant<bool, int64_t, uint64_t, double, std::string>;

// An HDF5 identifier and the function that releases it.
class Hdf5Handle {
 public:
  using Close = int (*)(int64_t);
  Hdf5Handle() = default;
  Hdf5Handle(int64_t id, Close close) : id_(id), close_(close) {}
  ~Hdf5Handle();
  Hdf5Handle(Hdf5Handle&& other) noexcept;
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept;
  int64_t id() const { return id_; }

 private:
  int64_t id_ = -1;
  Close close_ = nullptr;
};

// What errors say about a file: its name, and the exit code of a fault in it.
struct Hdf5Origin {
  std::string name;
  ExitCode code;
};

enum class Hdf5Kind : uint8_t { integer, floating, boolean, text };

class Hdf5Dataset {
 public:
  // "/train/labels" as it was asked for.
  const std::string& path() const { return path_; }
  Hdf5Kind kind() const { return kind_; }
  // Empty for a scalar.
  const std::vector<int64_t>& sizes() const { return sizes_; }
  int64_t count() const;
  // Rows of the first axis; a scalar is one row.
  int64_t rows() const { return sizes_.empty() ? 1 : sizes_[0]; }
  // Of one row of the first axis, as it is stored before any compression.
  int64_t row_bytes() const;
  // The narrowest of our dtypes that holds every value of the stored type (float32 for half floats, int32 for int8 ... uint16).
  Dtype natural_dtype() const;
  // Sizes of a chunk, or nothing for a contiguous data set.
  const std::optional<std::vector<int64_t>>& chunk() const { return chunk_; }

  // Numbers. A value that does not fit the dtype (too large, a fraction or NaN for an integer) is a fault of the file, never clamped.
  Tensor read(Dtype dtype) const { return read_rows(0, rows(), dtype); }
  // Rows [first, first + count) of the first axis.
  Tensor read_rows(int64_t first, int64_t count, Dtype dtype) const;
  // The same into `out`, which has room for count rows.
  void read_rows(int64_t first, int64_t count, Dtype dtype, void* out) const;

  // Strings; bytes that are not UTF-8 are a fault of the file.
  std::string text() const;
  std::vector<std::string> texts() const { return texts(0, rows()); }
  std::vector<std::string> texts(int64_t first, int64_t count) const;

 private:
  friend class Hdf5File;
  Hdf5Dataset(std::shared_ptr<const Hdf5Origin> origin, std::string path, Hdf5Handle dataset);
  std::string where() const;
  void check_storage(int64_t properties) const;
  int64_t row_elements() const;
  std::pair<Hdf5Handle, Hdf5Handle> select_rows(int64_t first, int64_t count) const;

  std::shared_ptr<const Hdf5Origin> origin_;
  std::string path_;
  Hdf5Handle dataset_, type_, space_;
  Hdf5Kind kind_ = Hdf5Kind::integer;
  std::vector<int64_t> sizes_;
  std::optional<std::vector<int64_t>> chunk_;
};

// A new data set that is written row by row.
class Hdf5Rows {
 public:
  // Rows of the first axis, behind those that are there.
  void append(const void* numbers, int64_t rows);
  void append(const std::vector<std::string>& texts);
  int64_t written() const { return written_; }
  // How many rows are best written together: a chunk, or about 1 MiB.
  int64_t piece() const { return piece_; }

 private:
  friend class Hdf5File;
  Hdf5Rows(std::shared_ptr<const Hdf5Origin> origin, std::string path, std::vector<int64_t> sizes, int64_t piece)
      : origin_(std::move(origin)), path_(std::move(path)), sizes_(std::move(sizes)), piece_(piece) {}
  void write(const void* data, int64_t rows);

  std::shared_ptr<const Hdf5Origin> origin_;
  std::string path_;
  std::vector<int64_t> sizes_;
  int64_t piece_ = 1, written_ = 0;
  Hdf5Handle dataset_, type_;  // the type in memory
};

struct Hdf5Memory;

class Hdf5File {
 public:
  enum class ChildKind : uint8_t { group, dataset, link, other };
  struct Child {
    std::string name;
    ChildKind kind;
  };

  // For reading, without a lock (locks fail on some network file systems where reading would be safe).
  static Hdf5File open(const std::filesystem::path& file, ExitCode code = ExitCode::data);
  // The bytes of an HDF5 file; `name` is for messages.
  static Hdf5File from_image(std::string bytes, std::string name, ExitCode code);
  // A new file; one that stands there is replaced.
  static Hdf5File create(const std::filesystem::path& file);
  // A new file in memory.
  static Hdf5File create_image(std::string name);

  // Closes a file on disk; what the destructor would pass over is an error here. Nothing of it may be open any more.
  void close();
  // Closes a file in memory and gives its bytes; the same contents, written in the same order, are the same bytes.
  std::string take_image();

  // Paths begin with '/'.
  bool has(const std::string& path) const;
  // In the order of their names.
  std::vector<Child> children(const std::string& group) const;
  Hdf5Dataset dataset(const std::string& path) const;
  std::optional<Attribute> attribute(const std::string& path, const std::string& name) const;
  std::vector<std::string> attribute_names(const std::string& path) const;

  // Missing groups are made. Tensors are stored little-endian: contiguous, or deflated in chunks of whole rows of at least 1 MiB (all rows
  // where they are less).
  enum class Storage : uint8_t { contiguous, deflated };
  void write_group(const std::string& path);
  void write(const std::string& path, const Tensor& tensor, Storage storage = Storage::contiguous);
  // To be filled by the caller: `shape` rows and columns of numbers, or so many texts.
  Hdf5Rows write_rows(const std::string& path, Dtype dtype, const Shape& shape, Storage storage = Storage::contiguous);
  Hdf5Rows write_text_rows(const std::string& path, int64_t count);
  void write_text(const std::string& path, const std::string& text);
  void write_texts(const std::string& path, const std::vector<std::string>& texts);
  void write_attribute(const std::string& path, const std::string& name, const Attribute& value);
  // One label for each axis of a data set, as the dimension labels of HDF5 (h5py: dims[0].label).
  void write_axis_labels(const std::string& path, const std::vector<std::string>& labels);

 private:
  Hdf5File(std::shared_ptr<const Hdf5Origin> origin, Hdf5Handle file, std::shared_ptr<Hdf5Memory> memory = nullptr)
      : origin_(std::move(origin)), memory_(std::move(memory)), file_(std::move(file)) {}
  void write_strings(const std::string& path, const std::vector<const char*>& texts, int64_t space);

  std::shared_ptr<const Hdf5Origin> origin_;
  std::shared_ptr<Hdf5Memory> memory_;  // of a file in memory; outlives file_, which uses it until it is closed
  Hdf5Handle file_;
};

}  // namespace tapeformer::io
