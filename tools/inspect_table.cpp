// SPDX-License-Identifier: Apache-2.0
// A CSV, TSV or JSONL file: rows, and for each column what its cells look like.
#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "datasets/number.h"
#include "datasets/table.h"
#include "framework/core/log.h"
#include "framework/io/text.h"
#include "tools/inspect_file.h"
#include "tools/standard_output.h"

namespace tapeformer::tools {
namespace {

using Json = nlohmann::ordered_json;
constexpr size_t most_distinct = 10000, shown_rows = 3, shown_bytes = 60;

// What is said of a column after all its cells were seen.
struct Column {
  int64_t missing = 0, integers = 0, numbers = 0, arrays = 0, objects = 0, texts = 0;
  size_t longest = 0;                   // bytes
  std::unordered_set<size_t> distinct;  // hashes, since a cell may hold a whole series

  void add(const std::string& text, bool structured) {
    longest = std::max(longest, text.size());
    if (distinct.size() <= most_distinct) distinct.insert(std::hash<std::string>{}(text));
    const auto number = datasets::number_of(text);
    if (structured) text[0] == '[' ? ++arrays : ++objects;
    else if (datasets::is_missing(text)) ++missing;
    else if (number && std::isfinite(*number)) *number == std::floor(*number) ? ++integers : ++numbers;
    else ++texts;
  }
  std::string type() const {
    if (objects > 0) return "object";
    if (arrays > 0) return "array";
    if (texts > 0) return "text";
    if (numbers > 0) return "number";
    return integers > 0 ? "integer" : "empty";
  }
  std::string distinct_text() const {
    return distinct.size() > most_distinct ? fmt::format("over {}", most_distinct) : std::to_string(distinct.size());
  }
};

std::string shortened(const std::string& text) {
  if (text.size() <= shown_bytes) return printable(text);
  const std::vector<size_t> starts = io::character_starts(text);
  const auto cut = std::upper_bound(starts.begin(), starts.end(), shown_bytes);
  return printable(text.substr(0, *(cut - 1))) + "...";
}

}  // namespace

std::string inspect_table(const std::filesystem::path& file, bool json, io::Encoding encoding) {
  datasets::Source source;
  source.path = file.string();
  source.encoding = encoding;
  datasets::DataSettings settings;
  const auto table = datasets::Table::open(source, settings.format_of(source));
  const std::vector<std::string>& names = table->columns();
  std::vector<Column> columns(names.size());
  std::vector<std::vector<std::string>> first;
  int64_t rows = 0;
  for (; table->next(); ++rows) {
    std::vector<std::string> cells;
    for (size_t c = 0; c < columns.size(); ++c) {
      const auto structured = table->json(c);
      cells.push_back(structured ? *structured : table->text(c));
      columns[c].add(cells.back(), structured.has_value());
    }
    if (first.size() < shown_rows) first.push_back(std::move(cells));
  }
  if (json) {
    Json out{{"file", file.string()}, {"kind", "table"}, {"rows", rows}, {"columns", Json::array()}, {"first_rows", first}};
    for (size_t c = 0; c < columns.size(); ++c) {
      Json entry{{"name", names[c]}, {"type", columns[c].type()}, {"missing", columns[c].missing}, {"longest_bytes", columns[c].longest}};
      entry["distinct"] = columns[c].distinct.size() > most_distinct ? Json() : Json(columns[c].distinct.size());
      out["columns"].push_back(entry);
    }
    return out.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
  }
  std::string text = fmt::format("{}: {} rows, {} columns\n", printable(file.string()), rows, names.size());
  std::vector<std::vector<std::string>> lines{{"column", "type", "missing", "distinct", "longest"}};
  for (size_t c = 0; c < columns.size(); ++c)
    lines.push_back({printable(names[c]), columns[c].type(), std::to_string(columns[c].missing), columns[c].distinct_text(),
                     fmt::format("{} bytes", columns[c].longest)});
  text += aligned(lines);
  for (size_t r = 0; r < first.size(); ++r) {
    text += fmt::format("row {}\n", r + 1);
    for (size_t c = 0; c < columns.size(); ++c) text += fmt::format("  {}: {}\n", printable(names[c]), shortened(first[r][c]));
  }
  return text;
}

}  // namespace tapeformer::tools
