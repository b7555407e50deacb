// SPDX-License-Identifier: Apache-2.0
// The layout of a compiler's message: file:line:column, the source line, a caret under the place, a hint.
#include "framework/config/fault.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "framework/config/print.h"
#include "framework/core/log.h"

namespace tapeformer::config {
namespace {

constexpr size_t most_shown = 100;
constexpr size_t widest = 120;  // bytes of a source line that are shown

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }
auto characters(std::string_view text) { return std::count_if(text.begin(), text.end(), starts_character); }

// The line and the caret line under it. Of a long line only the part around the place.
std::string excerpt(const Place& place) {
  std::string_view line = line_of(*place.source, place.line);
  size_t at = std::min<size_t>(static_cast<size_t>(place.column - 1), line.size());
  const bool cut = line.size() > widest;
  if (cut) {
    size_t begin = at > widest / 3 ? at - widest / 3 : 0;
    while (begin > 0 && begin < line.size() && !starts_character(line[begin])) --begin;
    size_t end = std::min(line.size(), begin + widest);
    while (end < line.size() && !starts_character(line[end])) --end;
    line = line.substr(begin, end - begin);
    at -= begin;
  }
  std::string padding;
  for (const char c : line.substr(0, at))
    if (starts_character(c)) padding += c == '\t' ? '\t' : ' ';
  const auto length = std::max<std::ptrdiff_t>(1, characters(line.substr(at, static_cast<size_t>(place.length))));
  std::string shown(line);
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\t'; }, '?');
  return fmt::format("{:5} | {}\n      | {}^{}\n", place.line, shown, padding, std::string(static_cast<size_t>(length - 1), '~'));
}

// `kind`: "error: ", or nothing.
std::string text_of(const Fault& fault, std::string_view kind) {
  const Place& place = fault.place;
  std::string text = place.source ? printable(place.source->name) : "config";
  if (place.line > 0 && !place.source->command_line) {
    const std::string_view before = line_of(*place.source, place.line).substr(0, static_cast<size_t>(place.column - 1));
    text += fmt::format(":{}:{}: {}{}\n{}", place.line, characters(before) + 1, kind, fault.message, excerpt(place));
  } else {
    text += fmt::format(": {}{}\n", kind, fault.message);
  }
  return fault.hint.empty() ? text : text + "  " + fault.hint + "\n";
}

std::string counted(size_t n, const char* what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

}  // namespace

void Report::add(Fault fault) {
  const auto same = [&](const Fault& f) {
    return f.place.source == fault.place.source && f.place.line == fault.place.line && f.place.column == fault.place.column &&
           f.message == fault.message;
  };
  // Looking through all is quadratic, so past what is shown the search stops.
  if (faults_.size() < 10 * most_shown && std::any_of(faults_.begin(), faults_.end(), same)) return;
  errors_ += fault.kind == Fault::Kind::error;
  faults_.push_back(std::move(fault));
}

ExitCode Report::code() const {
  std::optional<ExitCode> code;
  for (const Fault& f : faults_)
    if (f.kind == Fault::Kind::error) code = code.value_or(f.code) == f.code ? f.code : ExitCode::usage;
  return code.value_or(ExitCode::usage);
}

std::vector<Fault> Report::sorted() const {
  std::vector<Fault> all = faults_;
  const auto rank = [](const Fault& f) { return std::tuple(f.place.source ? f.place.source->order : -1, f.place.line, f.place.column); };
  std::stable_sort(all.begin(), all.end(), [&](const Fault& a, const Fault& b) { return rank(a) < rank(b); });
  return all;
}

std::string Report::text() const {
  const std::vector<Fault> all = sorted();
  std::string text;
  for (size_t i = 0; i < all.size() && i < most_shown; ++i)
    text += text_of(all[i], all[i].kind == Fault::Kind::error ? "error: " : "warning: ");
  if (all.size() > most_shown) text += fmt::format("... and {} more\n", all.size() - most_shown);
  text += counted(errors_, "error");
  if (all.size() > errors_) text += ", " + counted(all.size() - errors_, "warning");
  return text + "; nothing was started.";
}

std::vector<std::string> Report::warnings() const {
  std::vector<std::string> texts;
  for (const Fault& f : sorted()) {
    if (f.kind != Fault::Kind::warning) continue;
    texts.push_back(text_of(f, {}));
    texts.back().pop_back();  // the last newline
  }
  return texts;
}

}  // namespace tapeformer::config
