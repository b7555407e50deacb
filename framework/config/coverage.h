// SPDX-License-Identifier: Apache-2.0
// Follows a parse through the text, so that nothing is lost: what lies between two tokens may only be space, comments and punctuation.
// yaml-cpp drops a last line without ':' in silence, lets quotes stay open until the end of the file, and skips directives.
#pragma once
#include <string>
#include <string_view>

#include "framework/config/source.h"

namespace tapeformer::config {

// Ends a parse at its first syntax fault.
struct SyntaxFault {
  Place place;
  std::string message, hint;
};

class Coverage {
 public:
  explicit Coverage(const SourcePtr& source) : source_(source) {}

  // A scalar starts at `at` and its text is `value`: returns the offset after it.
  size_t scalar(size_t at, std::string_view value, bool plain);
  // An alias, or a word that stands for null.
  void word(size_t at, size_t length);
  // The end of the text is reached.
  void finish();

 private:
  std::string_view text() const { return source_->text; }
  void advance(size_t begin, size_t end);
  size_t end_of_quotes(size_t at) const;
  size_t end_of_text(size_t at, std::string_view value) const;
  size_t after_block_header(size_t at) const;

  const SourcePtr& source_;
  size_t covered_ = 0;  // everything before it is accounted for
};

}  // namespace tapeformer::config
