// SPDX-License-Identifier: Apache-2.0
#include "datasets/labels.h"

#include "datasets/number.h"
#include "tests/datasets/files.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::datasets;
using namespace tapeformer::testing;

TEST_CASE("labels stand in natural order") {
  CHECK(sorted_labels({"10", "9", "b", "-1", "2", "a10", "a9", "2.5", "a", "B", "02"}) ==
        std::vector<std::string>{"-1", "02", "2", "2.5", "9", "10", "B", "a", "a9", "a10", "b"});
  CHECK(sorted_labels({"x1y10", "x1y9", "x01y9", "nan", "inf"}) == std::vector<std::string>{"inf", "nan", "x01y9", "x1y9", "x1y10"});
  const Labels labels({"2", "10", "x"});
  CHECK(labels.number("10") == 1);
  CHECK(labels.number("1") == -1);
}

TEST_CASE("numbers have one reading") {
  struct {
    const char* text;
    std::optional<double> value;
  } const table[] = {{"1e-4", 1e-4}, {".5", 0.5},  {"0010", 10}, {"+3", 3}, {" 7\r", 7}, {"-0", 0},    {"1_000", {}},
                     {"1,5", {}},    {"0x10", {}}, {"0o7", {}},  {"", {}},  {"+-3", {}}, {"3 kg", {}}, {"1e39", 1e39}};
  for (const auto& row : table) {
    CAPTURE(row.text);
    CHECK(number_of(row.text) == row.value);
  }
  CHECK(std::isinf(*number_of("inf")));
  CHECK(std::isinf(*number_of("1e400")));
  CHECK(is_missing(" NaN "));
  CHECK(is_missing(""));
  CHECK_FALSE(is_missing("0"));
}

TEST_CASE("labels with a number of classes are whole numbers in range") {
  CHECK(canonical_label("2.0", 10, "") == "2");
  CHECK(canonical_label("1\r", 10, "") == "1");
  CHECK(canonical_label(" cat ", 0, "") == "cat");
  CHECK(canonical_label("2.0", 0, "") == "2.0");
  struct {
    const char* label;
    const char* says;
  } const table[] = {{"2.7", "no whole number"},
                     {"cat", "no whole number"},
                     {"255", "outside 0 to 9"},
                     {"-4", "outside 0 to 9"},
                     {"10", "seem to count from 1"},
                     {"nan", "no whole number"},
                     {"", "missing"}};
  for (const auto& row : table) {
    CAPTURE(row.label);
    const Fault fault = fault_of([&] { canonical_label(row.label, 10, "f.csv:3: row 2"); });
    CHECK(fault.code == 3);
    CHECK(fault.says("f.csv:3: row 2"));
    CHECK(fault.says(row.says));
  }
}

TEST_CASE("a label with a NUL byte, which no file could keep, is refused") {
  for (const int64_t classes : {0, 10}) {
    const Fault fault = fault_of([&] { canonical_label(std::string_view("1\0y", 3), classes, "f.jsonl:3: row 2"); });
    CHECK(fault.code == 3);
    CHECK(fault.says("f.jsonl:3: row 2"));
    CHECK(fault.says("NUL"));
  }
}
