// SPDX-License-Identifier: Apache-2.0
// Durations: every unit, lists where the first limit wins, and malformed words.
#include "framework/train/duration.h"

#include "framework/config/document.h"
#include "framework/core/error.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using train::Duration;

namespace {

Duration read(const std::string& text, Duration by_default = {}) {
  config::Document document = config::Document::from_text(text, "test.yaml", {});
  config::Section root = document.root();
  train::read_duration(root, "duration", by_default, "how long");
  document.finish();
  return by_default;
}

}  // namespace

TEST_CASE("every unit of a duration is understood", "[duration]") {
  const std::vector<std::pair<std::string, Duration>> table{
      {"20ep", {20.0, {}, {}}}, {"0.5ep", {0.5, {}, {}}},    {"1", {{}, 1, {}}},        {"50000", {{}, 50000, {}}},
      {"50k", {{}, 50000, {}}}, {"2.5M", {{}, 2500000, {}}}, {"2.3k", {{}, 2300, {}}},  {"0.001k", {{}, 1, {}}},
      {"2h", {{}, {}, 7200.0}}, {"1.5h", {{}, {}, 5400.0}},  {"30m", {{}, {}, 1800.0}}, {"90s", {{}, {}, 90.0}},
  };
  for (const auto& [word, expected] : table) {
    INFO(word);
    Duration d;
    CHECK(!train::parse_duration(word, d));
    CHECK(d == expected);
  }
}

TEST_CASE("malformed durations are refused with the word and what is expected", "[duration]") {
  for (const std::string word : {"",
                                 " ",
                                 "ep",
                                 "k",
                                 "h",
                                 "20 ep",
                                 " 20ep",
                                 "20ep ",
                                 "20epochs",
                                 "20EP",
                                 "2H",
                                 "2d",
                                 "1h30m",
                                 "-5",
                                 "+5",
                                 "-2h",
                                 "0",
                                 "0ep",
                                 "0.0h",
                                 "1.5",
                                 "1.0001k",
                                 "1e3",
                                 "1e3ep",
                                 "inf",
                                 "nan",
                                 "infs",
                                 ".5h",
                                 "5.",
                                 "5.h",
                                 "1.2.3h",
                                 "0x10",
                                 "50K",
                                 "50kk",
                                 "2hm",
                                 "1,000",
                                 "1_000",
                                 "99999999999999999999",
                                 "9999999999999h",
                                 "9999999999999ep",
                                 "20ep\n"}) {
    INFO("'" << word << "'");
    Duration d;
    const auto wrong = train::parse_duration(word, d);
    REQUIRE(wrong);
    CHECK(wrong->find("'" + word + "'") != std::string::npos);
    CHECK(wrong->find("50k") != std::string::npos);
    CHECK(d == Duration{});
  }
}

TEST_CASE("two limits of one kind are refused", "[duration]") {
  for (const auto& [a, b] : std::vector<std::pair<std::string, std::string>>{{"2ep", "3ep"}, {"50k", "100"}, {"2h", "30m"}}) {
    Duration d;
    CHECK(!train::parse_duration(a, d));
    const Duration before = d;
    CHECK(train::parse_duration(b, d).has_value());
    CHECK(d == before);
  }
}

TEST_CASE("the total is the nearest limit in updates", "[duration]") {
  const auto total = [](Duration d, int64_t per_epoch) { return d.total_updates(per_epoch); };
  CHECK(total({20.0, {}, {}}, 7) == 140);
  CHECK(total({0.5, {}, {}}, 7) == 4);
  CHECK(total({0.07, {}, {}}, 100) == 7);  // 0.07 * 100 in double is above 7
  CHECK(total({0.001, {}, {}}, 7) == 1);
  CHECK(total({{}, 100, {}}, 7) == 100);
  CHECK(total({20.0, 100, {}}, 7) == 100);
  CHECK(total({10.0, 100, 60.0}, 7) == 70);
  CHECK(total({{}, {}, 60.0}, 7) == std::nullopt);
  CHECK(total({1e12, {}, {}}, 1000000000) == 1000000000000000000);
}

TEST_CASE("durations are read from a config, one word or a list", "[duration]") {
  CHECK(read("duration: 20ep\n") == Duration{20.0, {}, {}});
  CHECK(read("duration: 50000\n") == Duration{{}, 50000, {}});
  CHECK(read("duration: [20ep, 2h, 50k]\n") == Duration{20.0, 50000, 7200.0});
  CHECK(read("{}\n", {3.0, {}, 60.0}) == Duration{3.0, {}, 60.0});
  CHECK(read("duration: 2h\n", {3.0, {}, {}}) == Duration{{}, {}, 7200.0});
  for (const char* wrong :
       {"duration: 20eq\n", "duration: [2ep, 3ep]\n", "duration: -1\n", "duration: {a: 1}\n", "duration: 1.5\n", "duration: []\n"}) {
    INFO(wrong);
    try {
      read(wrong);
      FAIL("accepted");
    } catch (const Error& e) {
      CHECK(e.code() == ExitCode::usage);
      CHECK(std::string(e.what()).find("duration") != std::string::npos);
    }
  }
}
