// SPDX-License-Identifier: Apache-2.0
// UTF-8 validation on every code point and on the malformed forms, Latin-1 conversion, character borders.
#include "framework/io/text.h"

#include "tests/support/catch.h"

using namespace tapeformer::io;

namespace {

std::string encoded(uint32_t code) {
  const auto byte = [](uint32_t b) { return static_cast<char>(b); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xc0 | code >> 6), byte(0x80 | (code & 63))};
  if (code < 0x10000) return {byte(0xe0 | code >> 12), byte(0x80 | (code >> 6 & 63)), byte(0x80 | (code & 63))};
  return {byte(0xf0 | code >> 18), byte(0x80 | (code >> 12 & 63)), byte(0x80 | (code >> 6 & 63)), byte(0x80 | (code & 63))};
}

}  // namespace

TEST_CASE("every code point is valid, and no surrogate") {
  std::string all;
  size_t characters = 0;
  for (uint32_t code = 0; code < 0x110000; ++code) {
    const bool surrogate = code >= 0xd800 && code < 0xe000;
    if (!surrogate) {
      all += encoded(code);
      ++characters;
    } else if (first_invalid_utf8("ab" + encoded(code)) != 2) FAIL("surrogate " << code);
  }
  CHECK(!first_invalid_utf8(all));
  CHECK(character_starts(all).size() == characters);
  CHECK(first_invalid_utf8(encoded(0x110000)) == 0);
}

TEST_CASE("malformed bytes are found where they stand, behind any run of ASCII") {
  const std::string bad[] = {"\x80",
                             "\xbf",
                             "\xc0\x80",
                             "\xc1\xbf",
                             "\xe0\x80\x80",
                             "\xe0\x9f\xbf",
                             "\xf0\x80\x80\x80",
                             "\xf0\x8f\xbf\xbf",
                             "\xf4\x90\x80\x80",
                             "\xf5\x80\x80\x80",
                             "\xff",
                             "\xc3",
                             "\xe2\x82",
                             "\xf0\x9f\x98",
                             "\xe2\x28\xa1",
                             "\xc3\x28",
                             "\xf0\x9f\x28\x80"};
  for (const std::string& form : bad)
    for (size_t before = 0; before < 20; ++before)
      for (const char* behind : {"", "x", "12345678"}) {
        const std::string text = std::string(before, 'a') + "\xc3\xa4" + std::string(before, 'b') + form + behind;
        if (first_invalid_utf8(text) != 2 * before + 2) FAIL("form of " << form.size() << " bytes behind " << before);
      }
  CHECK(!first_invalid_utf8(""));
  CHECK(!first_invalid_utf8(std::string("a\0b", 3)));
}

TEST_CASE("a cut inside a character is invalid, a cut on a border of character_starts is not") {
  const std::string text = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z";
  const std::vector<size_t> starts = character_starts(text);
  CHECK(starts == std::vector<size_t>{0, 1, 3, 6, 10});
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const bool border = cut == text.size() || std::count(starts.begin(), starts.end(), cut) == 1;
    CHECK(!first_invalid_utf8(text.substr(0, cut)) == border);
  }
  CHECK(character_starts("").empty());
}

TEST_CASE("each Latin-1 byte becomes the code point of its number") {
  for (uint32_t byte = 0; byte < 256; ++byte) CHECK(utf8_from_latin1(std::string(1, static_cast<char>(byte))) == encoded(byte));
  CHECK(utf8_from_latin1("caf\xe9 \xfc") == "caf\xc3\xa9 \xc3\xbc");
}
