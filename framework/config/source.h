// SPDX-License-Identifier: Apache-2.0
// The text of one config file or one override, and places in it. Reading refuses what can't be a config before any parser sees it.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace tapeformer::config {

struct Source {
  std::string name;           // as messages show it: a path, or "command line: 'optim.lr=fast'"
  std::string text;           // without byte order mark, lines ending in \n
  std::filesystem::path dir;  // what paths in it are relative to
  int order = 0;              // reports sort by it
  bool command_line = false;
};
using SourcePtr = std::shared_ptr<const Source>;

// A stretch of one line. Line 0: the source as a whole. Columns count bytes from 1; reports show characters.
struct Place {
  SourcePtr source;
  int line = 0, column = 0, length = 1;
};

constexpr size_t size_limit = size_t{1} << 20;  // bytes of one file
constexpr int depth_limit = 64;                 // maps and lists within each other
constexpr int node_limit = 100'000;             // values of one file, each use of an alias counted

// The bytes of a file; reads at most size_limit + 1. On failure returns false and says why.
bool read_bytes(const std::filesystem::path& file, std::string& bytes, std::string& why);
// Takes off a byte order mark and makes every line, the last one too, end in \n alone.
std::string normalised(std::string_view bytes);
// "file.yaml:14", "command line", or the bare name.
std::string origin(const Place& place);
// The text of line `line` (from 1).
std::string_view line_of(const Source& source, int line);
Place place_at(const SourcePtr& source, size_t offset, size_t length = 1);

}  // namespace tapeformer::config
