// SPDX-License-Identifier: Apache-2.0
// Numbers as data files have them.
#include "datasets/number.h"

#include <cmath>

#include "tests/support/catch.h"

using namespace tapeformer::datasets;

TEST_CASE("a number is decimal, the whole text, in any locale") {
  CHECK(number_of(" 1.5\t") == 1.5);
  CHECK(number_of("+2e3") == 2000);
  CHECK(number_of("-.5") == -0.5);
  CHECK(std::isinf(number_of("1e999").value()));
  CHECK(std::isinf(number_of("-inf").value()));
  CHECK(std::isnan(number_of("nan").value()));
  for (const char* other : {"", " ", "1,5", "0x10", "3 kg", "1 2", "+-1", "--1", "e5"}) {
    INFO('"' << other << '"');
    CHECK(!number_of(other));
  }
}

TEST_CASE("a missing value is empty or one of the usual words") {
  for (const char* word : {"", " \t", "NA", "n/a", "Null", "none", "NaN", " na\r"}) CHECK(is_missing(word));
  for (const char* word : {"0", "nano", "-", "nil", "inf"}) CHECK(!is_missing(word));
}

TEST_CASE("blanks inside a text stay") {
  CHECK(trimmed("\t a b \r\n") == "a b");
  CHECK(trimmed(" \n ").empty());
}
