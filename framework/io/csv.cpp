// SPDX-License-Identifier: Apache-2.0
#include "framework/io/csv.h"

#include <fmt/format.h>

#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "framework/core/error.h"
#include "framework/core/log.h"
#include "framework/core/suggest.h"
#include "framework/io/file_system.h"
#include "framework/io/text.h"

namespace tapeformer::io {
namespace {

constexpr size_t first_buffer = size_t{1} << 20;
constexpr size_t longest_row = size_t{64} << 20;

// Lines that begin in `bytes`, less one: LF, CRLF and CR each end one.
int64_t line_breaks(std::string_view bytes) {
  int64_t count = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    count += bytes[i] == '\n' || (bytes[i] == '\r' && (i + 1 == bytes.size() || bytes[i + 1] != '\n'));
  return count;
}

}  // namespace

struct CsvReader::State {
  State(const std::filesystem::path& file, char delimiter_, Encoding encoding_)
      : input(file_system(), file, O_RDONLY, 0, ExitCode::data), delimiter(delimiter_), encoding(encoding_), buffer(first_buffer, '\0') {}

  template <class... Args>
  [[noreturn]] void fault(int64_t at_line, fmt::format_string<Args...> format, Args&&... args) const {
    fail(ExitCode::data, "{}:{}: {}", printable(input.path().string()), at_line, fmt::format(format, std::forward<Args>(args)...));
  }
  int64_t line_at(size_t place) const { return line + line_breaks({buffer.data() + begin, place - begin}); }

  void check_start();
  size_t read_more();
  void refill();
  bool ready();
  bool parse(CsvRow& row);
  bool parse_fields(CsvRow& row);
  bool quoted_field(std::string& field);
  bool plain_field(std::string& field);
  void check_bytes();

  OpenFile input;
  char delimiter;
  Encoding encoding;
  std::string buffer;
  size_t begin = 0, at = 0, end = 0;  // in the buffer: where the row begins, the next byte to look at, the end of what was read
  uint64_t offset = 0;                // of `begin` in the file
  int64_t line = 1;                   // of `begin`
  int64_t rows = 0;
  bool at_end = false;  // of the file: nothing will follow what is in the buffer
  std::vector<std::string> columns;
};

// Reads what is there behind the unfinished row and goes back to its beginning. Returns the bytes that came, 0 at the end of the file.
size_t CsvReader::State::read_more() {
  if (end - begin > longest_row) fault(line, "a row of more than {} MiB begins here; is a quote never closed?", longest_row >> 20);
  if (begin > 0) {
    std::memmove(buffer.data(), buffer.data() + begin, end - begin);
    end -= begin;
    begin = 0;
  }
  at = begin;
  if (buffer.size() - end < buffer.size() / 2) buffer.resize(buffer.size() * 2);
  const size_t wanted = std::min(buffer.size(), longest_row + 1) - end;  // not 0: `end` is at most longest_row here
  const size_t got = input.read_some(buffer.data() + end, wanted);
  end += got;
  at_end = got == 0;
  return got;
}

// Reads until a line ends: no row is complete before, and parsing it again for each piece of a pipe would take long.
void CsvReader::State::refill() {
  while (!at_end) {
    const size_t got = read_more();
    if (std::string_view(buffer.data() + end - got, got).find_first_of("\r\n") != std::string_view::npos) return;
  }
}

// Whether a whole row, or the end of the file, is in the buffer or can be had without waiting.
bool CsvReader::State::ready() {
  CsvRow row;
  for (size_t skipped = 0;;) {
    at = begin + skipped;
    const bool whole = parse_fields(row);
    if (whole && at > begin + skipped && (buffer[begin + skipped] == '\n' || buffer[begin + skipped] == '\r')) skipped = at - begin;
    else if (whole || at_end) return true;
    else if (!input.ready()) return false;
    else read_more();
  }
}

void CsvReader::State::check_start() {
  while (!at_end && end < 3 && std::string_view(buffer.data(), end).find('\n') == std::string_view::npos) read_more();
  const std::string_view start(buffer.data(), std::min<size_t>(end, 3));
  const bool wide = start.starts_with("\xff\xfe") || start.starts_with("\xfe\xff") || (start.size() >= 2 && (!start[0] != !start[1]));
  if (wide) fault(1, "this looks like UTF-16; save the file as UTF-8");
  if (start != "\xef\xbb\xbf") return;
  if (encoding == Encoding::latin1) fault(1, "the file begins with the mark of UTF-8 but is read as latin-1; leave `encoding` out");
  begin = at = 3;
  offset = 3;
}

// The three parsers below return false when the buffer ends before they know enough: the row is then parsed again, with more.

bool CsvReader::State::quoted_field(std::string& field) {
  const size_t open = at++;
  const char* data = buffer.data();
  for (size_t from = at;;) {
    while (at < end && data[at] != '"' && data[at] != '\r') ++at;
    field.append(data + from, at - from);
    // What a quote or CR means depends on the byte behind it.
    if (at + 1 >= end && !at_end) return false;
    if (at >= end) fault(line_at(open), "a quote opened here is never closed");
    const char next = at + 1 < end ? data[at + 1] : '\n';
    if (data[at] == '"' && next != '"') break;
    field.push_back(data[at] == '"' ? '"' : '\n');
    at += next == (data[at] == '"' ? '"' : '\n') ? 2 : 1;
    at = std::min(at, end);
    from = at;
  }
  ++at;
  if (at < end && data[at] != delimiter && data[at] != '\n' && data[at] != '\r')
    fault(line_at(at), "text follows a closing quote; a field with quotes inside needs them doubled and quotes around it");
  return true;
}

bool CsvReader::State::plain_field(std::string& field) {
  const size_t from = at;
  const char* data = buffer.data();
  while (at < end && data[at] != delimiter && data[at] != '\n' && data[at] != '\r') ++at;
  if (at == end && !at_end) return false;
  field.assign(data + from, at - from);
  return true;
}

bool CsvReader::State::parse_fields(CsvRow& row) {
  for (size_t count = 1;; ++count) {
    if (row.fields.size() < count) row.fields.emplace_back();
    std::string& field = row.fields[count - 1];
    field.clear();
    if (at == end && !at_end) return false;
    if (!(at < end && buffer[at] == '"' ? quoted_field(field) : plain_field(field))) return false;
    if (at < end && buffer[at] == delimiter) {
      ++at;
      continue;
    }
    row.fields.resize(count);
    break;
  }
  if (at == end) return true;
  if (buffer[at] == '\r' && at + 1 == end && !at_end) return false;
  at += buffer[at] == '\r' && at + 1 < end && buffer[at + 1] == '\n' ? 2 : 1;
  return true;
}

// The bytes of the row, once and whole; its fields are cut from them.
void CsvReader::State::check_bytes() {
  const std::string_view bytes(buffer.data() + begin, at - begin);
  if (const size_t nul = bytes.find('\0'); nul != bytes.npos)
    fault(line_at(begin + nul), "a NUL byte at offset {}; this is no text", offset + nul);
  if (encoding == Encoding::latin1) return;
  if (const auto bad = first_invalid_utf8(bytes))
    fault(line_at(begin + *bad), "byte 0x{:02x} at offset {} is not UTF-8; convert the file, or set `encoding: latin-1` if it is Latin-1",
          static_cast<unsigned char>(bytes[*bad]), offset + *bad);
}

bool CsvReader::State::parse(CsvRow& row) {
  for (;;) {
    at = begin;
    while (!parse_fields(row)) refill();
    if (at == begin) return false;
    check_bytes();
    if (at - begin > longest_row) fault(line, "a row of more than {} MiB", longest_row >> 20);
    const std::string_view bytes(buffer.data() + begin, at - begin);
    row.line = line;
    line += line_breaks(bytes);
    offset += bytes.size();
    begin = at;
    if (bytes[0] != '\n' && bytes[0] != '\r') break;  // else a line without any byte
  }
  if (encoding == Encoding::latin1)
    for (std::string& field : row.fields) field = utf8_from_latin1(field);
  return true;
}

CsvReader::CsvReader(const std::filesystem::path& file, char delimiter, Encoding encoding)
    : state_(std::make_unique<State>(file, delimiter, encoding)) {
  state_->check_start();
  CsvRow header;
  if (!state_->parse(header)) state_->fault(1, "the file is empty; a first line with the names of the columns was expected");
  state_->columns = std::move(header.fields);
  std::vector<std::string> sorted = state_->columns;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
    state_->fault(header.line, "two columns are named '{}'", printable(*twice));
}

CsvReader::~CsvReader() = default;
CsvReader::CsvReader(CsvReader&&) noexcept = default;
CsvReader& CsvReader::operator=(CsvReader&&) noexcept = default;

const std::vector<std::string>& CsvReader::columns() const { return state_->columns; }

size_t CsvReader::column(std::string_view name) const {
  const auto& columns = state_->columns;
  const auto found = std::find(columns.begin(), columns.end(), name);
  if (found != columns.end()) return static_cast<size_t>(found - columns.begin());
  const std::string near = nearest(name, columns);
  state_->fault(1, "no column '{}'{}; the file has: {}", printable(name),
                near.empty() ? "" : fmt::format(", did you mean '{}'?", printable(near)),
                printable(fmt::format("{}", fmt::join(columns, ", "))));
}

bool CsvReader::ready() { return state_->ready(); }

bool CsvReader::next(CsvRow& row) {
  if (!state_->parse(row)) return false;
  row.row = ++state_->rows;
  if (row.fields.size() != state_->columns.size())
    state_->fault(row.line, "row {} has {} fields, the header {}; a field with the delimiter or a quote in it needs quotes around it",
                  row.row, row.fields.size(), state_->columns.size());
  return true;
}

std::string csv_field(std::string_view text, char delimiter) {
  const bool quotes = text.find_first_of("\"\r\n") != text.npos || text.find(delimiter) != text.npos;
  if (!quotes) return std::string(text);
  std::string field = "\"";
  for (const char c : text) {
    if (c == '"') field.push_back('"');
    field.push_back(c);
  }
  field.push_back('"');
  return field;
}

}  // namespace tapeformer::io
