// SPDX-License-Identifier: Apache-2.0
#include "framework/io/line_reader.h"

#include <fcntl.h>

#include <algorithm>
#include <string_view>

#include "framework/core/error.h"
#include "framework/core/log.h"

namespace tapeformer::io {

LineReader::LineReader(const std::filesystem::path& file) : file_(file_system(), file, O_RDONLY, 0, ExitCode::data) {}

bool LineReader::has_line() {
  searched_ = std::min(buffer_.find('\n', std::max(searched_, at_)), buffer_.size());
  return searched_ < buffer_.size();
}

void LineReader::fill() {
  constexpr size_t piece = size_t{1} << 16, longest = size_t{64} << 20;
  buffer_.erase(0, at_);
  searched_ -= at_;
  at_ = 0;
  if (buffer_.size() > longest)
    fail(ExitCode::data, "{}:{}: a line of more than {} MiB", printable(file_.path().string()), line_ + 1, longest >> 20);
  const size_t have = buffer_.size();
  buffer_.resize(have + piece);
  const size_t got = file_.read_some(buffer_.data() + have, piece);
  buffer_.resize(have + got);
  at_end_ = got == 0;
}

bool LineReader::ready() {
  while (!has_line() && !at_end_) {
    if (!file_.ready()) return false;
    fill();
  }
  return true;
}

bool LineReader::next(std::string& line) {
  while (!has_line() && !at_end_) fill();
  if (at_ == buffer_.size()) return false;
  const bool ends = searched_ < buffer_.size();
  line.assign(buffer_, at_, searched_ - at_);
  offset_ = next_offset_;
  next_offset_ += line.size() + ends;
  at_ = searched_ + ends;
  searched_ = at_;
  if (line.ends_with('\r')) line.pop_back();
  constexpr std::string_view mark = "\xEF\xBB\xBF";
  if (++line_ == 1 && line.starts_with(mark)) {
    line.erase(0, mark.size());
    offset_ += mark.size();
  }
  return true;
}

}  // namespace tapeformer::io
