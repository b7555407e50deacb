// SPDX-License-Identifier: Apache-2.0
// Finds the end of each scalar again from its text: quotes by their closing mark, plain and block text by its visible characters.
#include "framework/config/coverage.h"

#include <fmt/format.h>

#include <algorithm>

namespace tapeformer::config {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n'; }

}  // namespace

size_t Coverage::scalar(size_t at, std::string_view value, bool plain) {
  const char first = at < text().size() ? text()[at] : ' ';
  size_t end = 0;
  if (plain) end = end_of_text(at, value);
  else if (first == '\'' || first == '"') end = end_of_quotes(at);
  else end = end_of_text(after_block_header(at), value);
  advance(at, end);
  return end;
}

void Coverage::word(size_t at, size_t length) { advance(at, std::min(at + length, text().size())); }

void Coverage::finish() { advance(text().size(), text().size()); }

void Coverage::advance(size_t begin, size_t end) {
  size_t at = std::min(covered_, begin);
  while (at < begin) {
    const char c = text()[at];
    const bool after_space = at == 0 || is_space(text()[at - 1]);
    if (c == '#' && after_space) at = std::min(text().find('\n', at), text().size());
    else if (c == '&') at = std::min(text().find_first_of(" \t\n", at), text().size());
    else if (is_space(c) || std::string_view("-?:,[]{}").find(c) != std::string_view::npos || text().substr(at, 3) == "...") ++at;
    else if (c == '.' && at > 0 && text()[at - 1] == '.') ++at;
    else if (c == '%' && after_space) throw SyntaxFault{place_at(source_, at), "'%' directives are not used in configs", "remove the line"};
    else
      throw SyntaxFault{place_at(source_, at), "this belongs to no key and would be lost", "write key: value, with a space after the ':'"};
  }
  covered_ = std::max(covered_, end);
}

size_t Coverage::end_of_quotes(size_t at) const {
  const char quote = text()[at];
  for (size_t i = at + 1; i < text().size(); ++i) {
    const bool doubled = quote == '\'' && i + 1 < text().size() && text()[i + 1] == quote;
    if ((quote == '"' && text()[i] == '\\') || (text()[i] == quote && doubled)) ++i;
    else if (text()[i] == quote) return i + 1;
  }
  throw SyntaxFault{place_at(source_, at), fmt::format("this {} is never closed", quote), {}};
}

size_t Coverage::end_of_text(size_t at, std::string_view value) const {
  for (const char c : value) {
    if (is_space(c)) continue;
    while (at < text().size() && text()[at] != c) ++at;
    at = std::min(at + 1, text().size());
  }
  return at;
}

size_t Coverage::after_block_header(size_t at) const {
  const size_t end = std::min(text().find('\n', at), text().size());
  const size_t extra = text().find_first_not_of("+-0123456789", at + 1);
  const std::string_view rest = extra < end ? text().substr(extra, end - extra) : std::string_view();
  const size_t visible = rest.find_first_not_of(" \t");
  if (visible != std::string_view::npos && (visible == 0 || rest[visible] != '#'))
    throw SyntaxFault{place_at(source_, extra + visible), "nothing may follow '|' or '>' on its line", "start the text on the next line"};
  return end;
}

}  // namespace tapeformer::config
