// SPDX-License-Identifier: Apache-2.0
#include "framework/data/description_json.h"

#include "framework/core/error.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::data;

TEST_CASE("a description comes back from JSON to the bit") {
  Description d;
  d.task = Task::tagging;
  d.labels = {"2", "10", "é\"\\\n"};
  d.target_names = {"y"};
  d.tokenizer_json = "{\"type\": \"word\"}";
  d.vocab_size = 12;
  d.feature_names = {"a", "b"};
  d.feature_mean = Tensor::of(std::vector<double>{0.1, -1e300});
  d.feature_deviation = Tensor::of(std::vector<double>{1.0 / 3, 5e-324});
  d.max_length = 77;
  d.truncate = Truncate::middle;
  d.empty = Empty::skip;
  d.missing = Missing::zero_with_flag;
  d.class_weights = {0.5, 2};
  d.fingerprint = "abc";
  const std::string json = description_to_json(d);
  const Description r = description_from_json(json);
  CHECK(r.task == d.task);
  CHECK(r.labels == d.labels);
  CHECK(r.tokenizer_json == d.tokenizer_json);
  CHECK(r.feature_mean.span<double>()[1] == -1e300);
  CHECK(r.feature_deviation.span<double>()[0] == 1.0 / 3);
  CHECK(r.truncate == Truncate::middle);
  CHECK(r.empty == Empty::skip);
  CHECK(r.missing == Missing::zero_with_flag);
  CHECK(r.class_weights == d.class_weights);
  CHECK(description_to_json(r) == json);
  CHECK_FALSE(description_from_json(description_to_json(Description())).feature_mean.defined());
}

TEST_CASE("what is no description is a checkpoint error") {
  const std::string good = description_to_json(Description());
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  for (const std::string& bad :
       {std::string(), std::string("[]"), changed("classification", "ranking"), changed("\"labels\":[]", "\"labels\":3"),
        changed("\"feature_mean\":[]", "\"feature_mean\":[1]"), good.substr(0, good.size() - 1)}) {
    CAPTURE(bad);
    try {
      description_from_json(bad);
      FAIL("read");
    } catch (const Error& e) {
      CHECK(e.code() == ExitCode::checkpoint);
    }
  }
}
