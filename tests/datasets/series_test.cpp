// SPDX-License-Identifier: Apache-2.0
#include "datasets/series.h"

#include <cmath>
#include <set>

#include "tests/datasets/files.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::datasets;
using namespace tapeformer::testing;
using data::Part;

namespace {

constexpr const char* two_sequences =
    "sequence,step,a,b,label\ns1,2,3,10,up\ns2,1,5,10,down\ns1,1,1,10,up\ns1,10,5,10,up\ns2,2,1,10,down\n";

}  // namespace

TEST_CASE("rows are gathered by sequence and ordered by step") {
  const Directory directory;
  directory.write("a.csv", two_sequences);
  const auto d = open("data: {path: DIR/a.csv, sequence: sequence, step: step, standardize: false}\n", directory);
  CHECK(d->description().feature_names == std::vector<std::string>{"a", "b"});
  CHECK(d->description().labels == std::vector<std::string>{"down", "up"});
  CHECK_FALSE(d->description().feature_mean.defined());
  CHECK(d->size(Part::train) == 2);
  CHECK(sample(*d, Part::train, 0).values == std::vector<float>{1, 10, 3, 10, 5, 10});
  CHECK(sample(*d, Part::train, 0).label == 1);
  CHECK(sample(*d, Part::train, 1).id == "s2");
  CHECK(d->length(Part::train, 1) == 2);
  CHECK(data::read_batch(*d, Part::train, {1, 0}).values.shape() == Shape({5, 2}));
}

TEST_CASE("a sequence is named by data.id in its first row") {
  const Directory directory;
  directory.write("a.csv", "sequence,step,code,a,label\ns1,2,x,3,up\ns2,1,y,5,down\ns1,1,z,1,up\n");
  const std::string yaml = "data: {path: DIR/a.csv, sequence: sequence, step: step, id: code, standardize: false}\n";
  const auto d = open(yaml, directory);
  CHECK(d->description().feature_names == std::vector<std::string>{"a"});
  CHECK(sample(*d, Part::train, 0).id == "x");
  CHECK(sample(*d, Part::train, 0).values == std::vector<float>{1, 3});
  CHECK(sample(*d, Part::train, 1).id == "y");
  directory.write("a.csv", "sequence,code,a,label\ns1,x,3,up\ns1,y,4,down\n");
  const Fault differs = fault_of([&] { open("data: {path: DIR/a.csv, sequence: sequence, id: code}\n", directory); });
  CHECK(differs.says("of the same sequence 's1'"));
  const Fault none = fault_of([&] { open("data: {path: DIR/a.csv, sequence: sequence, id: cod, features: [a]}\n", directory); });
  CHECK(none.code == 3);
  CHECK(none.says("did you mean 'code'"));
  const auto windows = open("data: {path: DIR/a.csv, features: [a], id: code, window: {length: 1}}\n", directory);
  CHECK(sample(*windows, Part::train, 1).id == "2");  // a window by its first row, as when predicting
}

TEST_CASE("tags of a part cut from the training file are missed in that file's column") {
  const Directory directory;
  std::string rows = "sequence,a,y\n";
  for (int i = 0; i < 20; ++i) rows += fmt::format("s{0},{0},only{0}\n", i);  // each tag in one part alone
  directory.write("a.csv", rows);
  const Fault fault = fault_of([&] {
    open("data: {task: tagging, train: {path: DIR/a.csv, tags: y}, sequence: sequence, features: [a], split: {valid: 0.5}}\n", directory);
  });
  CHECK(fault.code == 3);
  CHECK(fault.says("a.csv: column 'y': labels that the training part does not have"));
}

TEST_CASE("mean and deviation come from the training part alone") {
  const Directory directory;
  directory.write("a.csv", two_sequences);
  directory.write("b.csv", "sequence,step,b,a,label\nt,1,10,103,up\n");
  const std::string yaml = "data: {train: {path: DIR/a.csv}, test: {path: DIR/b.csv}, sequence: sequence, step: step}\n";
  const auto d = open(yaml, directory);
  const data::Description& known = d->description();
  CHECK(known.feature_mean.span<double>()[0] == 3);
  CHECK(std::abs(known.feature_deviation.span<double>()[0] - std::sqrt(16.0 / 5)) < 1e-12);
  CHECK(known.feature_deviation.span<double>()[1] == 1);  // a constant
  CHECK(sample(*d, Part::test, 0).values == std::vector<float>{static_cast<float>(100 / std::sqrt(16.0 / 5)), 0});
  directory.write("a.csv", "gone\n");
  const auto again = open(yaml, directory, {&known, {Part::test}});
  CHECK(sample(*again, Part::test, 0).values == sample(*d, Part::test, 0).values);
}

TEST_CASE("one bad number among ten thousand is found and counted") {
  const Directory directory;
  for (const char* bad : {"nan", "inf", "-inf", "1e39", "", "NA"})
    for (const int place : {1, 2500, 4999}) {
      std::string csv = "sequence,a,b,label\n";
      for (int i = 1; i <= 5000; ++i) csv += fmt::format("s{},{},{},{}\n", i % 100, i, i == place ? bad : "1", i % 100 % 2);
      directory.write("a.csv", csv);
      const Fault fault = fault_of([&] { open("data: {path: DIR/a.csv, sequence: sequence}\n", directory); });
      CAPTURE(bad, place, fault.text);
      CHECK(fault.code == 3);
      CHECK(fault.says(fmt::format("a.csv:{}: row {}, column 'b'", place + 1, place)));
      CHECK(fault.says("1 such cell"));
    }
}

TEST_CASE("missing numbers become zero with a flag") {
  const Directory directory;
  directory.write("a.csv", "sequence,a,b,label\ns,1,,x\ns,3,7,x\nt,,9,y\n");
  const auto d = open("data: {path: DIR/a.csv, sequence: sequence, missing: zero_with_flag}\n", directory);
  CHECK(d->description().feature_names == std::vector<std::string>{"a", "b", "a.missing", "b.missing"});
  CHECK(sample(*d, Part::train, 0).values == std::vector<float>{-1, 0, 0, 1, 1, -1, 0, 0});
  CHECK(sample(*d, Part::train, 1).values == std::vector<float>{0, 1, 1, 0});
}

TEST_CASE("windows over one table, cut by time") {
  const Directory directory;
  std::string csv = "x,y\n";
  for (int i = 0; i < 100; ++i) csv += fmt::format("{},{}\n", i, 1000 + i);
  directory.write("a.csv", csv);
  const auto d = open(
      "data: {path: DIR/a.csv, task: regression, target: y, standardize: false, window: {length: 8, hop: 3}, split: {valid: 0.1, test: "
      "0.2}}\n",
      directory);
  CHECK(d->size(Part::train) == 21);  // rows 0 to 69: starts 0, 3, ..., 60
  CHECK(d->size(Part::valid) == 1);   // 70 to 79
  CHECK(d->size(Part::test) == 5);    // 80 to 99
  CHECK(d->description().max_length == 8);
  CHECK(sample(*d, Part::train, 2).values == std::vector<float>{6, 7, 8, 9, 10, 11, 12, 13});
  CHECK(sample(*d, Part::train, 2).target == std::vector<float>{1013});
  CHECK(sample(*d, Part::valid, 0).values.front() == 70);
  CHECK(sample(*d, Part::test, 4).values.back() == 99);
  CHECK(fault_of([&] {
          open("data: {path: DIR/a.csv, task: regression, target: y, window: {length: 101}}\n", directory);
        }).says("data.window.length"));
}

TEST_CASE("windows of tagged rows") {
  const Directory directory;
  directory.write("a.csv", "x,tags\n1,A\n2,B\n3,-\n4,A\n");
  const auto d =
      open("data: {path: DIR/a.csv, task: tagging, ignored_tag: '-', standardize: false, window: {length: 2, hop: 1}}\n", directory);
  REQUIRE(d->size(Part::train) == 3);
  CHECK(sample(*d, Part::train, 1).tags == std::vector<int32_t>{1, -100});
  CHECK(sample(*d, Part::train, 2).values == std::vector<float>{3, 4});
}

TEST_CASE("sequences are cut, split and weighted") {
  const Directory directory;
  std::string csv = "sequence,x,label,w\n";
  for (int s = 0; s < 40; ++s)
    for (int i = 0; i < 5; ++i) csv += fmt::format("q{},{},{},{}\n", s, i, s % 2 ? "odd" : "even", s + 1);
  directory.write("a.csv", csv);
  const auto d = open(
      "data: {path: DIR/a.csv, sequence: sequence, weight: w, max_length: 3, truncate: middle, standardize: false, split: {valid: 0.1, "
      "test: 0.1, seed: 2}}\n",
      directory);
  CHECK(d->size(Part::train) == 32);
  CHECK(d->size(Part::valid) == 4);
  CHECK(sample(*d, Part::valid, 0).label + sample(*d, Part::valid, 1).label + sample(*d, Part::valid, 2).label +
            sample(*d, Part::valid, 3).label ==
        2);
  CHECK(sample(*d, Part::train, 0).values == std::vector<float>{0, 1, 4});
  CHECK(sample(*d, Part::train, 0).id == "q" + std::to_string(static_cast<int>(sample(*d, Part::train, 0).weight) - 1));
}

TEST_CASE("faults of a long table name their place") {
  const Directory directory;
  struct {
    const char* csv;
    const char* keys;
    const char* says;
  } const table[] = {
      {"sequence,x,label\ns,1,a\ns,2,b\n", "", "a.csv:3: row 2: label, target or weight differs from row 1"},
      {"sequence,x,label\ns,1,a\n,2,a\n", "", "a.csv:3: row 2, column 'sequence'"},
      {"sequence,x,label\ns,1,\n", "", "a.csv:2: row 1, column 'label': the label is missing"},
      {"sequence,x,label\ns,one,a\n", "", "a.csv:2: row 1, column 'x': 'one' is no number"},
      {"sequence,t,x,label\ns,1,1,a\ns,1,2,a\n", "step: t", "a.csv:3: row 2, column 't': step 1 of sequence 's' stands in row 1 too"},
      {"sequence,t,x,label\ns,,1,a\n", "step: t", "a.csv:2: row 1, column 't'"},
      {"sequence,label\ns,a\n", "", "no column is left"},
      {"sequence,x,label\ns,1,a\n", "features: [xx]", "xx"},
      {"sequence,x,label\n", "", "no training sample"},
      {"sequence,x,target\ns,1,nan\n", "task: regression", "a.csv:2: row 1, column 'target'"},
      {"sequence,x,label,w\ns,1,a,-1\n", "weight: w", "a.csv:2: row 1, column 'w'"},
  };
  for (const auto& row : table) {
    CAPTURE(row.csv);
    directory.write("a.csv", row.csv);
    const Fault fault = fault_of(
        [&] { open(std::string("data: {path: DIR/a.csv, sequence: sequence") + (*row.keys ? ", " : "") + row.keys + "}\n", directory); });
    CAPTURE(fault.text);
    CHECK(fault.code == 3);
    CHECK(fault.says(row.says));
  }
}

TEST_CASE("a line of JSONL is a whole sequence") {
  const Directory directory;
  directory.write("a.jsonl",
                  "{\"values\":[[1,10],[3,10]],\"label\":\"up\",\"n\":\"x\"}\n{\"values\":[[5,20]],\"label\":\"down\",\"n\":\"y\"}\n");
  const auto d = open("data: {path: DIR/a.jsonl, values: values, id: n}\n", directory);
  CHECK(d->description().feature_names == std::vector<std::string>{"feature1", "feature2"});
  CHECK(d->description().feature_mean.span<double>()[0] == 3);
  CHECK(d->length(Part::train, 0) == 2);
  CHECK(sample(*d, Part::train, 1).id == "y");
  CHECK(sample(*d, Part::train, 1).label == 0);
  const std::string raw = "data: {path: DIR/a.jsonl, values: values, standardize: false, features: [p, q]}\n";
  CHECK(open(raw, directory)->description().feature_names == std::vector<std::string>{"p", "q"});
  CHECK(sample(*open(raw, directory), Part::train, 0).values == std::vector<float>{1, 10, 3, 10});
  directory.write("b.jsonl", "{\"values\":[[3,1]],\"label\":\"up\",\"n\":\"z\"}\n");
  const auto test =
      open("data: {path: DIR/a.jsonl, test: {path: DIR/b.jsonl}, values: values}\n", directory, {&d->description(), {Part::test}});
  CHECK(sample(*test, Part::test, 0).values[0] == 0);
  const auto windows = open("data: {path: DIR/a.jsonl, values: values, window: {length: 1}, standardize: false}\n", directory);
  CHECK(windows->size(Part::train) == 3);
  CHECK(sample(*windows, Part::train, 1).values == std::vector<float>{3, 10});
}

TEST_CASE("arrays with one feature, missing numbers, targets and tags") {
  const Directory directory;
  directory.write("a.jsonl", "{\"v\":[1,null,3],\"target\":0.5}\n{\"v\":[],\"target\":1}\n{\"v\":[5],\"target\":2}\n");
  const std::string yaml = "data: {task: regression, path: DIR/a.jsonl, values: v, standardize: false, empty: skip";
  const auto d = open(yaml + ", missing: zero_with_flag}\n", directory);
  CHECK(d->size(Part::train) == 2);
  CHECK(sample(*d, Part::train, 0).values == std::vector<float>{1, 0, 0, 1, 3, 0});
  CHECK(sample(*d, Part::train, 1).target == std::vector<float>{2});
  const Fault missing = fault_of([&] { open(yaml + "}\n", directory); });
  CHECK(missing.code == 3);
  CHECK(missing.says("a.jsonl:1: row 1, column 'v', step 2, feature 'feature1'"));
  CHECK(missing.says("1 such cell"));
  CHECK(fault_of([&] {
          open("data: {task: regression, path: DIR/a.jsonl, values: v, missing: zero_with_flag}\n", directory);
        }).says("row 2, column 'v': an empty sample"));

  directory.write("t.jsonl", "{\"v\":[1,2],\"tags\":[\"A\",\"B\"]}\n");
  CHECK(sample(*open("data: {task: tagging, path: DIR/t.jsonl, values: v}\n", directory), Part::train, 0).tags ==
        std::vector<int32_t>{0, 1});
  struct {
    const char* line;
    const char* says;
  } const table[] = {
      {"{\"v\":[[1,2],[3]],\"label\":1}", "row 1, column 'v', step 2: 1 numbers, 2 are expected"},
      {"{\"v\":[[1],[]],\"label\":1}", "row 1, column 'v', step 1: 0 numbers"},
      {"{\"v\":[[1],[\"a\"]],\"label\":1}", "step 2: \"a\" is no number"},
      {"{\"v\":[1,true],\"label\":1}", "step 2: true is no number"},
      {"{\"v\":7,\"label\":1}", "expected an array with the rows of a sequence"},
      {"{\"label\":1}", "no key 'v'"},
      {"{\"v\":[[1]],\"label\":1}\n{\"v\":[[1,2]],\"label\":1}", "row 2, column 'v': 2 numbers in a row, 1 are expected"},
      {"{\"v\":[],\"label\":1}", "an empty sample"},
  };
  for (const auto& row : table) {
    directory.write("f.jsonl", std::string(row.line) + "\n");
    const Fault fault = fault_of([&] { open("data: {path: DIR/f.jsonl, values: v}\n", directory); });
    CAPTURE(row.line, fault.text);
    CHECK(fault.code == 3);
    CHECK(fault.says(row.says));
  }
  directory.write("f.jsonl", "{\"v\":[],\"label\":1}\n");
  CHECK(fault_of([&] { open("data: {path: DIR/f.jsonl, values: v, empty: skip}\n", directory); }).says("no sample with rows"));
  directory.write("f.csv", "v,label\n1,2\n");
  CHECK(fault_of([&] { settings_of("data: {path: DIR/f.csv, values: v}\n", directory); }).code == 2);
  CHECK(fault_of([&] { settings_of("data: {path: DIR/f.jsonl, values: v, sequence: s}\n", directory); }).code == 2);
}
