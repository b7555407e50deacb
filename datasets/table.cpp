// SPDX-License-Identifier: Apache-2.0
#include "datasets/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "datasets/number.h"
#include "framework/core/error.h"
#include "framework/core/log.h"
#include "framework/core/suggest.h"
#include "framework/io/line_reader.h"
#include "framework/io/text.h"

namespace tapeformer::datasets {
namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr int deepest = 100;  // arrays and objects within each other: what prints a cell calls itself for each

int depth_of(std::string_view json) {
  int depth = 0, most = 0;
  bool quoted = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted && c == '\\') ++i;
    else if (c == '"') quoted = !quoted;
    else if (!quoted && (c == '[' || c == '{')) most = std::max(most, ++depth);
    else if (!quoted && (c == ']' || c == '}')) --depth;
  }
  return most;
}

double checked_number(const Table& table, size_t column, std::string_view text) {
  if (is_missing(text)) return not_a_number;
  const std::optional<double> value = number_of(text);
  if (!value) fail(ExitCode::data, "{}: '{}' is no number", table.where(column), printable(text.substr(0, 60)));
  return *value;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  constexpr std::string_view blanks = " \t\r\n";
  for (size_t at = text.find_first_not_of(blanks); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(blanks, at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = text.find_first_not_of(blanks, end);
  }
  return words;
}

// Makes a line's JSON as json::parse does, and keeps how the fractions and the whole numbers beyond 64 bits of its cells were typed: as
// doubles they would read otherwise. The functions are those that sax_parse() calls.
class LineParser {
 public:
  using Json = nlohmann::json;
  // By key and place in the cell's array, 0 where the cell is the number itself.
  using Typed = std::map<std::string, std::map<size_t, std::string>>;

  bool parse(const std::string& text) { return Json::sax_parse(text, this); }
  Json& value() { return value_; }
  Typed& typed() { return typed_; }
  size_t fault_at() const { return fault_at_; }  // the byte, from 1
  bool too_large() const { return too_large_; }  // a number, in text that is well-formed so far

  bool null() { return add(nullptr); }
  bool boolean(bool x) { return add(x); }
  bool number_integer(int64_t x) { return add(x); }
  bool number_unsigned(uint64_t x) { return add(x); }
  bool number_float(double x, const std::string& text) {
    if (open_.size() == 1) typed_[cell_][0] = text;
    else if (open_.size() == 2 && open_[1]->is_array()) typed_[cell_][open_[1]->size()] = text;
    return add(x);
  }
  bool string(std::string& x) { return add(std::move(x)); }
  bool binary(Json::binary_t&) { return false; }  // JSON has none
  bool start_object(size_t) { return begin(Json::object()); }
  bool start_array(size_t) { return begin(Json::array()); }
  bool end_object() { return end(); }
  bool end_array() { return end(); }
  bool key(std::string& name) {
    key_ = name;
    if (open_.size() == 1) typed_.erase(cell_ = name);  // of the same key twice the last one holds
    return true;
  }
  bool parse_error(size_t position, const std::string&, const Json::exception& e) {
    constexpr int overflow = 406;  // the library's number of it
    fault_at_ = position;
    too_large_ = e.id == overflow;
    return false;
  }

 private:
  Json& place(Json&& value) {
    if (open_.empty()) return value_ = std::move(value);
    Json& in = *open_.back();
    if (!in.is_array()) return in[key_] = std::move(value);
    in.push_back(std::move(value));
    return in.back();
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool begin(Json empty) {
    open_.push_back(&place(std::move(empty)));
    return true;
  }
  bool end() {
    open_.pop_back();
    return true;
  }

  Json value_;
  std::vector<Json*> open_;  // arrays and objects around what comes next; only the last of them grows, so that they stay where they are
  std::string key_, cell_;   // the last key, and the last of the line's own
  Typed typed_;
  size_t fault_at_ = 0;
  bool too_large_ = false;
};

class CsvTable : public Table {
 public:
  CsvTable(const Source& source, char delimiter) : Table(source.path), reader_(source.path, delimiter, source.encoding) {}
  const std::vector<std::string>& columns() const override { return reader_.columns(); }
  size_t column(std::string_view name) const override { return reader_.column(name); }
  bool next() override { return reader_.next(row_); }
  bool ready() override { return reader_.ready(); }
  std::string text(size_t column) const override { return row_.fields[column]; }
  double number(size_t column) const override { return checked_number(*this, column, row_.fields[column]); }
  std::vector<std::string> words(size_t column) const override { return words_of(row_.fields[column]); }
  int64_t row() const override { return row_.row; }
  int64_t line() const override { return row_.line; }

 private:
  io::CsvReader reader_;
  io::CsvRow row_;
};

// One JSON object a line; blank lines are passed over. The columns are the keys of the first object.
class JsonlTable : public Table {
 public:
  explicit JsonlTable(const Source& source) : Table(source.path), encoding_(source.encoding), lines_(source.path) {
    pending_ = read_object();
    if (!pending_) fail(ExitCode::data, "{}: the file is empty", printable(source.path));
    for (const auto& [key, value] : object_.items()) columns_.push_back(key);
  }
  const std::vector<std::string>& columns() const override { return columns_; }
  size_t column(std::string_view name) const override {
    for (size_t i = 0; i < columns_.size(); ++i)
      if (columns_[i] == name) return i;
    const std::string near = nearest(name, columns_);
    fail(ExitCode::data, "{}:{}: no key '{}' in the first row{}; it has: {}", printable(path()), line(), printable(name),
         near.empty() ? "" : fmt::format("; did you mean '{}'?", printable(near)), printable(fmt::format("{}", fmt::join(columns_, ", "))));
  }
  bool ready() override { return pending_ || lines_.ready(); }
  bool next() override {
    if (pending_) pending_ = false;
    else if (!read_object()) return false;
    ++row_;
    return true;
  }
  std::string text(size_t column) const override {
    const nlohmann::json* v = value(column);
    if (!v) return {};
    if (v->is_string()) return v->get<std::string>();
    if (v->is_structured()) fail(ExitCode::data, "{}: an array or object where one text is expected", where(column));
    return typed(*v, column, 0);
  }
  std::optional<std::string> json(size_t column) const override {
    const nlohmann::json* v = value(column);
    return v && v->is_structured() ? std::optional(v->dump()) : std::nullopt;
  }
  double number(size_t column) const override {
    const nlohmann::json* v = value(column);
    if (!v) return not_a_number;
    if (v->is_number()) return v->get<double>();
    if (v->is_string()) return checked_number(*this, column, v->get<std::string>());
    fail(ExitCode::data, "{}: {} is no number", where(column), printable(v->dump().substr(0, 60)));
  }
  void need(size_t column) const override {
    if (!object_.contains(columns_[column])) fail(ExitCode::data, "{}: the row has no such key", where(column));
  }
  std::vector<std::string> words(size_t column) const override {
    const nlohmann::json* v = value(column);
    if (!v) return {};
    if (v->is_string()) return words_of(v->get<std::string>());
    if (!v->is_array()) fail(ExitCode::data, "{}: expected an array of words", where(column));
    std::vector<std::string> words;
    for (const nlohmann::json& word : *v) {
      if (word.is_structured() || word.is_null())
        fail(ExitCode::data, "{}: element {} of the array is no word", where(column), words.size() + 1);
      words.push_back(word.is_string() ? word.get<std::string>() : typed(word, column, words.size()));
    }
    return words;
  }
  size_t rows_of_numbers(size_t column, std::vector<double>& out) const override {
    const nlohmann::json* rows = value(column);
    if (!rows || !rows->is_array()) fail(ExitCode::data, "{}: expected an array with the rows of a sequence", where(column));
    size_t features = 0, step = 0;
    for (const nlohmann::json& row : *rows) {
      const size_t count = row.is_array() ? row.size() : 1;
      if (count == 0 || (++step > 1 && count != features))
        fail(ExitCode::data, "{}, step {}: {} numbers, {} are expected", where(column), std::max<size_t>(step, 1), count,
             features == 0 ? "some" : std::to_string(features));
      features = count;
      if (row.is_array())
        for (const nlohmann::json& cell : row) out.push_back(cell_number(cell, column, step));
      else out.push_back(cell_number(row, column, step));
    }
    return features;
  }
  int64_t row() const override { return row_; }
  int64_t line() const override { return lines_.line(); }

 private:
  // The cell, or null when it is null or not there.
  const nlohmann::json* value(size_t column) const {
    const auto found = object_.find(columns_[column]);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  // A number or a boolean as it stands in the file.
  std::string typed(const nlohmann::json& v, size_t column, size_t place) const {
    return v.is_number_float() ? typed_.at(columns_[column]).at(place) : v.dump();
  }
  double cell_number(const nlohmann::json& cell, size_t column, size_t step) const {
    if (cell.is_null()) return not_a_number;
    if (cell.is_number()) return cell.get<double>();
    fail(ExitCode::data, "{}, step {}: {} is no number", where(column), step, printable(cell.dump().substr(0, 60)));
  }
  bool read_object() {
    std::string text;
    do {
      if (!lines_.next(text)) return false;
    } while (trimmed(text).empty());
    if (encoding_ == io::Encoding::latin1) text = io::utf8_from_latin1(text);
    else if (const auto at = io::first_invalid_utf8(text))
      fail(ExitCode::data, "{}:{}: the byte 0x{:02x} at offset {} is not UTF-8; if the file is Latin-1, declare encoding: latin-1",
           printable(path()), line(), static_cast<unsigned char>(text[*at]), lines_.offset() + *at);
    if (depth_of(text) > deepest)
      fail(ExitCode::data, "{}:{}: more than {} arrays or objects within each other", printable(path()), line(), deepest);
    LineParser parser;
    if (!parser.parse(text)) {
      if (parser.too_large())
        fail(ExitCode::data, "{}:{}: a number is larger than a double can hold; write null where it is missing", printable(path()), line());
      fail(ExitCode::data, "{}:{}:{}: not valid JSON: one object a line is expected", printable(path()), line(), parser.fault_at());
    }
    object_ = std::move(parser.value());
    typed_ = std::move(parser.typed());
    if (!object_.is_object()) fail(ExitCode::data, "{}:{}: one JSON object a line is expected", printable(path()), line());
    return true;
  }

  io::Encoding encoding_;
  io::LineReader lines_;
  nlohmann::json object_;
  LineParser::Typed typed_;
  std::vector<std::string> columns_;
  bool pending_ = false;
  int64_t row_ = 0;
};

}  // namespace

std::string Table::where() const { return fmt::format("{}:{}: row {}", printable(path_), line(), row()); }

std::string Table::where(size_t column) const { return fmt::format("{}, column '{}'", where(), printable(columns()[column])); }

size_t Table::rows_of_numbers(size_t column, std::vector<double>&) const {
  fail(ExitCode::data, "{}: a sequence in one cell needs a JSONL file", where(column));
}

std::unique_ptr<Table> Table::open(const Source& source, Format format) {
  switch (format) {
    case Format::csv:
      return std::make_unique<CsvTable>(source, ',');
    case Format::tsv:
      return std::make_unique<CsvTable>(source, '\t');
    case Format::jsonl:
      return std::make_unique<JsonlTable>(source);
    default:
      require(false, "not a table: {}", source.path);
  }
  return nullptr;
}

}  // namespace tapeformer::datasets
