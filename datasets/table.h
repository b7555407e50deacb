// SPDX-License-Identifier: Apache-2.0
// The rows of a CSV, TSV or JSONL file under one interface; every fault names file, line, row and column.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/settings.h"

namespace tapeformer::datasets {

class Table {
 public:
  static std::unique_ptr<Table> open(const Source& source, Format format);
  virtual ~Table() = default;
  // Names of the header, or of the first row's keys.
  virtual const std::vector<std::string>& columns() const = 0;
  // The number of the named column; Error(data) with did-you-mean.
  virtual size_t column(std::string_view name) const = 0;
  virtual bool next() = 0;
  // False when next() would wait for a pipe.
  virtual bool ready() = 0;
  // Cells of the present row. Text of a number or a boolean is what was typed, of a missing cell it is empty.
  virtual std::string text(size_t column) const = 0;
  // Error(data) where the present row of JSON lacks the key, for a cell whose absence is not the same as nothing.
  virtual void need(size_t) const {}
  // The JSON of a cell that is an array or an object; nothing for any other.
  virtual std::optional<std::string> json(size_t) const { return std::nullopt; }
  // NaN for a missing cell; Error(data) for text that is no number.
  virtual double number(size_t column) const = 0;
  // A JSON array of words, or words separated by blanks.
  virtual std::vector<std::string> words(size_t column) const = 0;
  // A JSON array with an array of numbers for each row of a sequence (or one number, where there is one feature), appended to `out`; null
  // is NaN. Returns the numbers in a row, 0 for an empty array. Error(data) where rows differ, and for tables without arrays.
  virtual size_t rows_of_numbers(size_t column, std::vector<double>& out) const;
  virtual int64_t row() const = 0;   // from 1
  virtual int64_t line() const = 0;  // of the file, from 1

  // "data/train.csv:18: row 17" and "data/train.csv:18: row 17, column 'label'"
  std::string where() const;
  std::string where(size_t column) const;
  const std::string& path() const { return path_; }

 protected:
  explicit Table(std::string path) : path_(std::move(path)) {}

 private:
  std::string path_;
};

}  // namespace tapeformer::datasets
