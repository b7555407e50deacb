// SPDX-License-Identifier: Apache-2.0
// Tests generated from the keys of the sample: each misspelled, moved to another section, and doubled.
#include <fmt/format.h>

#include <map>

#include "tests/framework/config/sample.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::config;
using namespace tapeformer::config::sample;

namespace {

// Section -> its keys, each with a valid value.
using Schema = std::map<std::string, std::map<std::string, std::string>>;
const Schema schema = {
    {"model", {{"dim", "64"}, {"dropout", "0.1"}, {"tied", "true"}, {"note", "x"}, {"pooling", "max"}, {"attention", "{}"}}},
    {"model.attention", {{"type", "full"}, {"heads", "2"}}},
    {"optim", {{"learning_rate", "0.1"}, {"betas", "[0.5]"}, {"halvings", "[5]"}, {"warmup", "1k"}}},
    {"train", {{"seed", "1"}, {"rows", "2"}, {"threads", "auto"}, {"classes", "[a]"}, {"weights", "{a: 1}"}}},
};

// A config that holds one key in `section` and an unrelated valid one.
std::string config_with(const std::string& section, const std::string& line) {
  const std::string inside = section == "model.attention" ? "model:\n  attention:\n    " : section + ":\n  ";
  return inside + line + "\n";
}

std::vector<std::string> one_edit_of(const std::string& key) {
  std::vector<std::string> edits;
  for (size_t i = 0; i < key.size(); ++i) {
    edits.push_back(key.substr(0, i) + key.substr(i + 1));                                                               // lost
    edits.push_back(key.substr(0, i) + "x" + key.substr(i));                                                             // added
    edits.push_back(key.substr(0, i) + "q" + key.substr(i + 1));                                                         // replaced
    edits.push_back(key.substr(0, i) + key[i] + key.substr(i));                                                          // doubled
    if (i > 0 && key[i] != key[i - 1]) edits.push_back(key.substr(0, i - 1) + key[i] + key[i - 1] + key.substr(i + 1));  // swapped
  }
  return edits;
}

}  // namespace

TEST_CASE("every key with one edit is refused with the right suggestion", "[quick]") {
  size_t asked = 0, right = 0;
  for (const auto& [section, keys] : schema)
    for (const auto& [key, value] : keys)
      for (const std::string& typo : one_edit_of(key)) {
        const std::string report = report_of(config_with(section, typo + ": " + value));
        INFO(typo << "\n" << report);
        REQUIRE(contains(report, fmt::format("error: unknown key '{}' in '{}'", typo, section)));
        ++asked;
        right += contains(report, fmt::format("did you mean '{}'?", key));
      }
  REQUIRE(asked > 300);
  CAPTURE(asked, right);
  CHECK(static_cast<double>(right) >= 0.9 * static_cast<double>(asked));
}

TEST_CASE("every key in another section is refused with its own section", "[quick]") {
  size_t asked = 0;
  for (const auto& [home, keys] : schema)
    for (const auto& [key, value] : keys)
      for (const auto& [other, its_keys] : schema) {
        if (other == home || its_keys.count(key) > 0) continue;
        const std::string report = report_of(config_with(other, key + ": " + value));
        INFO(report);
        CHECK(contains(report, fmt::format("error: unknown key '{}' in '{}'", key, other)));
        CHECK(contains(report, fmt::format("'{}' is a key of '{}'", key, home)));
        CHECK(contains(report, "(known here: "));
        ++asked;
      }
  CHECK(asked == 51);
}

TEST_CASE("every key given twice is refused with both lines", "[quick]") {
  for (const auto& [section, keys] : schema)
    for (const auto& [key, value] : keys) {
      const std::string indent = section == "model.attention" ? "    " : "  ";
      const std::string line = key + ": " + value;
      const std::string text = config_with(section, line + "\n" + indent + "# between\n" + indent + "\"" + key + "\": " + value);
      const int first = section == "model.attention" ? 3 : 2;
      INFO(text);
      const std::string report = report_of(text);
      CHECK(contains(report,
                     fmt::format("c.yaml:{}:{}: error: duplicate key '{}' (first at line {})", first + 2, indent.size() + 1, key, first)));
      CHECK(contains(report, "1 error;"));
    }
  CHECK(contains(report_of("model: {dim: 4}\ntrain: {}\nmodel: {dim: 5}\n"), "c.yaml:3:1: error: duplicate key 'model' (first at line 1)"));
}

TEST_CASE("spellings of other tools find their key", "[quick]") {
  CHECK(contains(report_of("optim: {learning-rate: 1}\n"), "did you mean 'learning_rate'?"));
  CHECK(contains(report_of("optim: {Learning_Rate: 1}\n"), "did you mean 'learning_rate'?"));
  CHECK(contains(report_of("optim.warmup: 3\n"), "dotted keys are for the command line: here write 'optim:'"));
  CHECK(contains(report_of("dim: 3\n"), "unknown key 'dim' at the top level"));
  CHECK(contains(report_of("dim: 3\n"), "'dim' is a key of 'model'"));
  CHECK(contains(report_of("seeed: 3\n"), "'seed' is a key of 'train'"));
  CHECK(contains(report_of("optim: {model: 3}\n"), "'model' is a key of the top level"));
}

TEST_CASE("unknown keys below an unknown section are one error", "[quick]") {
  const std::string report = report_of("modle: {dim: 3, dropot: 4}\n");
  CHECK(contains(report, "did you mean 'model'?"));
  CHECK(contains(report, "1 error;"));
}

TEST_CASE("thousands of faults stay readable and quick", "[quick]") {
  std::string text = "model:\n";
  for (int i = 0; i < 40'000; ++i) text += fmt::format("  k{}: 1\n", i);
  const std::string report = report_of(text);
  CHECK(lines_with(report, "error: unknown key") == 100);
  CHECK(contains(report, "... and 39900 more\n40000 errors; nothing was started."));
}
