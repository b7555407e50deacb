// SPDX-License-Identifier: Apache-2.0
#include "datasets/memory_dataset.h"

#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::datasets;

TEST_CASE("samples come back as they were put in, and an empty id is the row") {
  SampleStore store;
  const data::Sample first{.tokens = {3, 1, 2}, .values = {}, .label = 1, .target = {}, .tags = {0, -100, 4}, .weight = 0.5f, .id = "a"};
  const data::Sample second{.tokens = {7}, .values = {}, .label = 0, .target = {}, .tags = {4}, .weight = 1, .id = ""};
  store.add(first, 2);
  store.add(second, 9);
  REQUIRE(store.size() == 2);
  data::Sample out;
  store.read(0, out);
  CHECK(out.tokens == first.tokens);
  CHECK(out.tags == first.tags);
  CHECK(out.label == 1);
  CHECK(out.weight == 0.5f);
  CHECK(out.id == "a");
  store.read(1, out);
  CHECK(out.tokens == second.tokens);
  CHECK(out.id == "9");
  CHECK(store.longest() == 3);
  CHECK(store.tag_counts() == std::vector<int64_t>{1, 0, 0, 0, 2});
}

TEST_CASE("windows are stretches of rows that are stored once") {
  SampleStore store(2);
  const data::Sample rows{.tokens = {}, .values = {0, 1, 2, 3, 4, 5, 6, 7}};
  const int64_t at = store.add_rows(rows);
  store.add_stretch(at, 3, {.label = 1}, 1);
  store.add_stretch(at + 1, 3, {.label = 0}, 2);
  data::Sample out;
  store.read(1, out);
  CHECK(out.values == std::vector<float>{2, 3, 4, 5, 6, 7});
  CHECK(out.label == 0);
}

TEST_CASE("an outline has the hash of the whole sample") {
  SampleStore whole, outlines;
  for (int32_t i = 0; i < 3; ++i) {
    const data::Sample s{.tokens = {i, 5}, .values = {}, .label = i};
    whole.add(s, i);
    outlines.add_outline(s, i);
    CHECK(whole.hash(i) == outlines.hash(i));
    CHECK(outlines.length(i) == 2);
    CHECK(outlines.label(i) == i);
  }
  CHECK(whole.hash(0) != whole.hash(1));
}

TEST_CASE("the report names what parts share and lack") {
  MemoryDataset d;
  d.description().labels = {"no", "yes"};
  d.store(data::Part::train).add({.tokens = {1, 2}, .values = {}, .label = 0}, 1);
  d.store(data::Part::train).add({.tokens = {3}, .values = {}, .label = 1}, 2);
  d.store(data::Part::test).add({.tokens = {1, 2}, .values = {}, .label = 0}, 1);
  CHECK(d.label_counts(data::Part::train) == std::vector<int64_t>{1, 1});
  CHECK(d.label_counts(data::Part::test) == std::vector<int64_t>{1, 0});
  d.report_parts();
  std::string text;
  for (const std::string& line : d.report()) text += line + "\n";
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("train") && Catch::Matchers::ContainsSubstring("test") &&
                       Catch::Matchers::ContainsSubstring("yes"));
}
