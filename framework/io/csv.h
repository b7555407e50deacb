// SPDX-License-Identifier: Apache-2.0
// RFC 4180 tables (comma or tab): quotes, doubled quotes, line breaks inside quotes, BOM, CRLF. Streams rows; every fault says its line.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tapeformer::io {

enum class Encoding : uint8_t { utf8, latin1 };

struct CsvRow {
  std::vector<std::string> fields;
  int64_t line = 0;  // of the file, from 1, where the row begins
  int64_t row = 0;   // of the data, from 1 (the header is not counted)
};

// A row ends with LF, CRLF or CR; a break inside quotes becomes LF, so that a file reads the same wherever it was saved. Lines without any
// byte are skipped (an empty field alone in its row is written ""). A quote inside a field that does not begin with one is plain text.
class CsvReader {
 public:
  // Reads the header. Error(data): no such file, empty file, duplicate column, UTF-16, bytes that are not UTF-8 (offset, line, hint:
  // encoding).
  CsvReader(const std::filesystem::path& file, char delimiter, Encoding encoding);
  ~CsvReader();
  CsvReader(CsvReader&&) noexcept;
  CsvReader& operator=(CsvReader&&) noexcept;
  const std::vector<std::string>& columns() const;
  // The number of the named column; Error(data) with did-you-mean.
  size_t column(std::string_view name) const;
  // False at the end. Error(data): ragged row, quote never closed, NUL byte, a row longer than 64 MiB.
  bool next(CsvRow& row);
  // False when next() would wait for a pipe or terminal. Error(data) as next().
  bool ready();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Quotes a field when it needs it.
std::string csv_field(std::string_view text, char delimiter = ',');

}  // namespace tapeformer::io
