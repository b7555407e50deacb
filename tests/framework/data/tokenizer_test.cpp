// SPDX-License-Identifier: Apache-2.0
#include "framework/data/tokenizer.h"

#include "framework/core/error.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::data;

namespace {

Tokenizer learned(TokenizerSettings settings, std::initializer_list<const char*> texts) {
  Tokenizer t(settings);
  for (const char* text : texts) t.learn(text);
  t.finish_vocabulary();
  return t;
}

std::vector<int32_t> encoded(const Tokenizer& t, std::string_view text) {
  std::vector<int32_t> out;
  t.encode(text, out);
  return out;
}

std::string utf8(uint32_t c) {
  std::string s;
  if (c < 0x80) s += static_cast<char>(c);
  else if (c < 0x800) (s += static_cast<char>(0xc0 | c >> 6)) += static_cast<char>(0x80 | (c & 63));
  else if (c < 0x10000)
    ((s += static_cast<char>(0xe0 | c >> 12)) += static_cast<char>(0x80 | (c >> 6 & 63))) += static_cast<char>(0x80 | (c & 63));
  else
    (((s += static_cast<char>(0xf0 | c >> 18)) += static_cast<char>(0x80 | (c >> 12 & 63))) += static_cast<char>(0x80 | (c >> 6 & 63))) +=
        static_cast<char>(0x80 | (c & 63));
  return s;
}

}  // namespace

TEST_CASE("texts are split by kind") {
  const auto split = [](TokenizerKind kind, std::string_view text, bool lower = false) {
    return Tokenizer({kind, lower, 0, 1}).split(text);
  };
  using Words = std::vector<std::string>;
  CHECK(split(TokenizerKind::whitespace, " a  [MAX 2]\tb\r\nc\u00a0d\u3000e ") == Words{"a", "[MAX", "2]", "b", "c", "d", "e"});
  CHECK(split(TokenizerKind::word, "Don't pay 3.50€, naïve_Émile!") ==
        Words{"Don", "'", "t", "pay", "3", ".", "50", "€", ",", "naïve", "_", "Émile", "!"});
  CHECK(split(TokenizerKind::word, "e\u0301t\u00e9 日本語 ٣٤") == Words{"e\u0301t\u00e9", "日本語", "٣٤"});
  CHECK(split(TokenizerKind::character, "aé 😀") == Words{"a", "é", " ", "😀"});
  CHECK(split(TokenizerKind::byte, "é") == Words{"\xc3", "\xa9"});
  CHECK(split(TokenizerKind::whitespace, "ÀÉ Straße ΣΑΣ", true) == Words{"àé", "straße", "σασ"});
  CHECK(split(TokenizerKind::word, "").empty());
  CHECK(split(TokenizerKind::whitespace, " \t\u2003 ").empty());
}

TEST_CASE("the vocabulary is by frequency, then by text") {
  const Tokenizer t = learned({}, {"b a c a", "c a <unk>", "d"});
  CHECK(t.vocab_size() == 5);
  CHECK(encoded(t, "a c b d") == std::vector<int32_t>{1, 2, 3, 4});
  std::vector<int32_t> out;
  CHECK(t.encode("a x y <unk>", out) == 3);
  CHECK(out == std::vector<int32_t>{1, 0, 0, 0});
  CHECK(t.decode(out) == "a <unk> <unk> <unk>");
  CHECK(t.number("c") == 2);
  CHECK(t.number("nothing") == 0);
}

TEST_CASE("rare tokens and those beyond the size are unknown") {
  CHECK(learned({TokenizerKind::whitespace, false, 3, 1}, {"a a b b c d"}).vocab_size() == 3);
  CHECK(learned({TokenizerKind::whitespace, false, 0, 2}, {"a a b b c d"}).vocab_size() == 3);
  CHECK(learned({TokenizerKind::whitespace, true, 0, 2}, {"a A b"}).number("A") == 1);
}

TEST_CASE("bytes and characters come back as they were") {
  const Tokenizer bytes = learned({TokenizerKind::byte, false, 0, 1}, {});
  CHECK(bytes.vocab_size() == 256);
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  CHECK(bytes.decode(encoded(bytes, all)) == all);

  std::string every;
  for (uint32_t c = 1; c < 0x110000; c += c < 0x3000 ? 1 : 37)
    if (c < 0xd800 || c > 0xdfff) every += utf8(c);
  Tokenizer characters({TokenizerKind::character, false, 0, 1});
  characters.learn(every);
  characters.finish_vocabulary();
  const Tokenizer again = Tokenizer::from_json(characters.to_json());
  std::vector<int32_t> out;
  CHECK(again.encode(every, out) == 0);
  CHECK((again.decode(out) == every));
  CHECK(again.vocab_size() == static_cast<int64_t>(out.size()) + 1);
}

TEST_CASE("bytes that are not UTF-8 are refused, save by the byte tokenizer") {
  for (const char* bad : {"\x80", "a\xff", "\xc0\xaf", "\xed\xa0\x80", "\xe2\x82", "\xf4\x90\x80\x80"})
    for (const TokenizerKind kind : {TokenizerKind::character, TokenizerKind::whitespace, TokenizerKind::word}) {
      Tokenizer t({kind, false, 0, 1});
      CHECK_THROWS_AS(t.learn(bad), Error);
    }
  CHECK(encoded(learned({TokenizerKind::byte, false, 0, 1}, {}), "\xff") == std::vector<int32_t>{255});
}

TEST_CASE("a tokenizer lives in JSON") {
  const Tokenizer t = learned({TokenizerKind::word, true, 50, 1}, {"Hello, \"world\" \\ \u00e9 \x01"});
  const Tokenizer again = Tokenizer::from_json(t.to_json());
  CHECK(again.to_json() == t.to_json());
  CHECK(again.settings().kind == TokenizerKind::word);
  CHECK(again.settings().lowercase);
  CHECK(encoded(again, "hello WORLD, \\") == encoded(t, "hello WORLD, \\"));
  for (const char* bad : {"", "[]", "{}", R"({"type":"bpe","lowercase":false,"vocab_size":0,"minimum_count":1,"tokens":["<unk>"]})",
                          R"({"type":"word","lowercase":false,"vocab_size":0,"minimum_count":1,"tokens":["a"]})",
                          R"({"type":"word","lowercase":false,"vocab_size":0,"minimum_count":1,"tokens":["<unk>","a","a"]})",
                          R"({"type":"word","lowercase":1,"vocab_size":0,"minimum_count":1,"tokens":["<unk>"]})"}) {
    CAPTURE(bad);
    try {
      Tokenizer::from_json(bad);
      FAIL("read");
    } catch (const Error& e) {
      CHECK(e.code() == ExitCode::checkpoint);
    }
  }
  CHECK_THROWS_AS(t.decode(99), Error);
  CHECK_THROWS_AS(t.decode(-1), Error);
}
