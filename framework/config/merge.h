// SPDX-License-Identifier: Apache-2.0
// Files over their bases: `base: other.yaml` names what a file builds upon.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "framework/config/fault.h"
#include "framework/config/node.h"

namespace tapeformer::config {

constexpr int base_limit = 4;  // bases of bases

// Lays `over` on `under`: maps merge key by key, all else replaces and remembers what it replaced.
void lay_over(Node& under, Node over);

// The path that the value of `base:` names in a file of the folder `dir`; nothing where it is none.
std::optional<std::filesystem::path> base_path(const Node& value, const std::filesystem::path& dir);

// The tree of a file's text over its bases; nothing, with faults in the report, when one of them can't be read.
class BaseLoader {
 public:
  explicit BaseLoader(Report& report) : report_(report) {}
  std::optional<Node> load(std::string_view bytes, const std::string& name, const std::filesystem::path& dir);
  // The same for a file, whose bytes are kept in `bytes`. `asked` is the place that named it, for the message when it can't be read.
  std::optional<Node> load_file(const std::filesystem::path& file, const Place* asked, std::string& bytes);

 private:
  std::optional<Node> load_base(const Entry& entry, const std::filesystem::path& dir);

  Report& report_;
  std::vector<std::filesystem::path> open_;  // files that are being read, outermost first
  int next_order_ = 0;
};

}  // namespace tapeformer::config
