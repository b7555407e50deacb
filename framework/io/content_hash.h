// SPDX-License-Identifier: Apache-2.0
// XXH3-128 of bytes that come in pieces: what files are recognised and checked by.
#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace tapeformer::io {

class ContentHash {
 public:
  ContentHash();
  void add(std::string_view bytes);
  // 32 hexadecimal digits, of everything so far.
  std::string text() const;

 private:
  std::unique_ptr<void, void (*)(void*)> state_;
};

}  // namespace tapeformer::io
