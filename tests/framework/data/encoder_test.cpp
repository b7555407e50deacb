// SPDX-License-Identifier: Apache-2.0
#include "framework/data/encoder.h"

#include <cmath>
#include <limits>

#include "framework/core/error.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::data;

namespace {

Description description_of(TokenizerKind kind, const std::string& text, int64_t max_length, Truncate truncate) {
  Tokenizer t({kind, false, 0, 1});
  t.learn(text);
  t.finish_vocabulary();
  Description d;
  d.tokenizer_json = t.to_json();
  d.vocab_size = t.vocab_size();
  d.max_length = max_length;
  d.truncate = truncate;
  return d;
}

Description numbers_of(Missing missing, bool standardised) {
  Description d;
  d.feature_names = {"a", "b"};
  std::vector<double> mean{10, -1}, deviation{2, 0.5};
  if (missing == Missing::zero_with_flag) {
    d.feature_names.insert(d.feature_names.end(), {"a.missing", "b.missing"});
    mean.insert(mean.end(), {0, 0});
    deviation.insert(deviation.end(), {1, 1});
  }
  if (standardised) {
    d.feature_mean = Tensor::of(mean);
    d.feature_deviation = Tensor::of(deviation);
  }
  d.missing = missing;
  return d;
}

}  // namespace

TEST_CASE("cuts of a byte sequence fall on characters") {
  const std::string text = "a😀é😀b";  // 1 4 2 4 1 bytes
  const Description whole = description_of(TokenizerKind::byte, "", 0, Truncate::error);
  const Tokenizer tokenizer = Tokenizer::from_json(whole.tokenizer_json);
  const char* right[] = {"a", "a", "a", "a", "a😀", "a😀", "a😀é", "a😀é", "a😀é"};
  const char* left[] = {"b", "b", "b", "b", "😀b", "😀b", "é😀b", "é😀b", "é😀b"};
  for (int64_t most = 1; most <= 9; ++most) {
    CAPTURE(most);
    Sample s;
    const Description r = description_of(TokenizerKind::byte, "", most, Truncate::right),
                      l = description_of(TokenizerKind::byte, "", most, Truncate::left),
                      m = description_of(TokenizerKind::byte, "", most, Truncate::middle);
    SampleEncoder(r).encode_text(text, "here", s);
    CHECK(tokenizer.decode(s.tokens) == right[most - 1]);
    SampleEncoder(l).encode_text(text, "here", s);
    CHECK(tokenizer.decode(s.tokens) == left[most - 1]);
    SampleEncoder(m).encode_text(text, "here", s);
    CHECK(s.tokens.size() <= static_cast<size_t>(most));
    Tokenizer valid({TokenizerKind::character, false, 0, 1});
    CHECK_NOTHROW(valid.learn(tokenizer.decode(s.tokens)));
  }
}

TEST_CASE("lengths at the limit, one below, one above and far above") {
  for (const int64_t n : {15, 16, 17, 1600}) {
    std::string text;
    for (int64_t i = 0; i < n; ++i) text += i % 2 ? "a " : "b ";
    for (const Truncate policy : {Truncate::error, Truncate::right, Truncate::left, Truncate::middle}) {
      const Description d = description_of(TokenizerKind::whitespace, "a b", 16, policy);
      SampleEncoder encoder(d);
      Sample s;
      if (policy == Truncate::error && n > 16) {
        CHECK_THROWS_WITH(encoder.encode_text(text, "row 5", s), Catch::Matchers::ContainsSubstring("row 5"));
        continue;
      }
      encoder.encode_text(text, "row 5", s);
      CHECK(s.tokens.size() == static_cast<size_t>(std::min<int64_t>(n, 16)));
      CHECK(encoder.truncated() == (n > 16));
      CHECK(encoder.tokens_seen() == n);
    }
  }
}

TEST_CASE("tags are cut with their tokens") {
  const Description d = description_of(TokenizerKind::whitespace, "a b c d e", 3, Truncate::middle);
  SampleEncoder encoder(d);
  Sample s;
  s.tags = {10, 20, 30, 40, 50};
  encoder.encode_tokens({"a", "b", "zz", "d", "e"}, "row 1", s);
  CHECK(s.tags == std::vector<int32_t>{10, 20, 50});
  CHECK(encoder.tokens_unknown() == 1);
  s.tags = {1};
  CHECK_THROWS_AS(encoder.encode_tokens({"a", "b"}, "row 1", s), Error);
}

TEST_CASE("empty samples follow the policy") {
  Description d = description_of(TokenizerKind::whitespace, "a", 3, Truncate::error);
  Sample s;
  CHECK_THROWS_WITH(SampleEncoder(d).encode_text(" ", "line 3", s),
                    Catch::Matchers::ContainsSubstring("line 3") && Catch::Matchers::ContainsSubstring("data.empty"));
  d.empty = Empty::skip;
  SampleEncoder(d).encode_text(" ", "line 3", s);
  CHECK(s.tokens.empty());
}

TEST_CASE("numbers are standardised, and missing ones flagged or refused") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Description d = numbers_of(Missing::zero_with_flag, true);
  SampleEncoder encoder(d);
  CHECK(encoder.raw_features() == 2);
  Sample s;
  encoder.encode_values({12, -1, nan, 0, 1e39, -2}, 3, "row 1", s);
  CHECK(s.values == std::vector<float>{1, 0, 0, 0, 0, 2, 1, 0, 0, -2, 1, 0});
  CHECK(encoder.missing() == 2);
  const Description plain = numbers_of(Missing::error, false);
  SampleEncoder strict(plain);
  strict.encode_values({12, -1}, 1, "row 1", s);
  CHECK(s.values == std::vector<float>{12, -1});
  CHECK_THROWS_WITH(strict.encode_values({1, 2, 3, nan}, 2, "row 7", s), Catch::Matchers::ContainsSubstring("row 7: step 2, feature 'b'"));
  CHECK_THROWS_AS(strict.encode_values({1, 2, 3}, 2, "row 7", s), Error);
}

TEST_CASE("numbers are cut like tokens") {
  Description d = numbers_of(Missing::error, false);
  d.max_length = 2;
  d.truncate = Truncate::left;
  Sample s;
  SampleEncoder(d).encode_values({1, 2, 3, 4, 5, 6}, 3, "row 1", s);
  CHECK(s.values == std::vector<float>{3, 4, 5, 6});
}
