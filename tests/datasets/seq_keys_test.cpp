// SPDX-License-Identifier: Apache-2.0
// Keys that describe tables, beside an HDF5 file: a converted one is read with the keys of its table, another one as the keys say, or not.
#include "datasets/seq_keys.h"

#include <algorithm>
#include <cmath>

#include "datasets/seq_dataset.h"
#include "framework/io/hdf5.h"
#include "tests/datasets/files.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::datasets;
using namespace tapeformer::testing;
using data::Part;

namespace {

// Opens a table with the keys, and what convert makes of it with the same ones: each sample must be the same.
void same_when_converted(const Directory& directory, const std::string& table, const std::string& keys) {
  CAPTURE(table, keys);
  const std::string from = "data: {path: DIR/" + table + ", " + keys + "}\n", to = "data: {path: DIR/c.h5, " + keys + "}\n";
  convert_to_hdf5(settings_of(from, directory), directory.path() / "c.h5");
  const auto a = open(from, directory), b = open(to, directory);
  CHECK(a->description().labels == b->description().labels);
  CHECK(a->description().target_names == b->description().target_names);
  CHECK(a->description().feature_names == b->description().feature_names);
  const auto near = [](const auto& x, const auto& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [](double u, double v) { return std::abs(u - v) <= 1e-6 * (1 + std::abs(u)); });
  };
  if (a->description().feature_mean.defined()) {
    CHECK(near(a->description().feature_mean.span<double>(), b->description().feature_mean.span<double>()));
    CHECK(near(a->description().feature_deviation.span<double>(), b->description().feature_deviation.span<double>()));
  }
  for (const Part part : {Part::train, Part::valid, Part::test}) {
    REQUIRE(a->size(part) == b->size(part));
    for (int64_t i = 0; i < a->size(part); ++i) {
      const data::Sample x = sample(*a, part, i), y = sample(*b, part, i);
      CHECK(x.tokens == y.tokens);
      CHECK(near(x.values, y.values));
      CHECK(x.label == y.label);
      CHECK(x.target == y.target);
      CHECK(x.tags == y.tags);
      CHECK(x.weight == y.weight);
      CHECK(x.id == y.id);
    }
  }
}

Fault fault(const Directory& directory, const std::string& keys) {
  return fault_of([&] { open("data: {path: DIR/a.h5, " + keys + "}\n", directory); });
}

}  // namespace

TEST_CASE("a converted file is read with the keys of its table") {
  const Directory directory;
  std::string text = "name,text,label,w,x,y\n", series = "q,t,a,b,c,label,tags,code\n";
  for (int i = 0; i < 40; ++i) text += fmt::format("n{},a b{},{},{},{},{}\n", i, i % 5, i % 4, i % 3 + 1, i, i * i);
  for (int i = 0; i < 60; ++i) series += fmt::format("q{},{},{},{},0,{},{},code{}\n", i / 6, -i, i, i * i % 7, i / 6 % 2, i % 3, i / 6);
  directory.write("text.csv", text);
  directory.write("series.csv", series);
  same_when_converted(directory, "text.csv", "id: name, weight: w, classes: 4, split: {valid: 0.25, test: 0.25, seed: 3}");
  same_when_converted(directory, "text.csv", "task: regression, target: [y, x], split: {test: 0.25}");
  same_when_converted(directory, "text.csv", "task: regression, target: y, encoding: latin-1");
  same_when_converted(directory, "text.csv", "task: tagging, tokens: text, tags: text, ignored_tag: a");
  same_when_converted(directory, "series.csv", "sequence: q, step: t, features: [b, a], id: code, split: {valid: 0.2}");
  same_when_converted(directory, "series.csv", "task: tagging, sequence: q, features: [a], ignored_tag: '1', window: {length: 3, hop: 2}");
  same_when_converted(directory, "series.csv", "sequence: q, step: t, features: [b, a], max_length: 4, truncate: middle");
  same_when_converted(directory, "series.csv",
                      "task: regression, target: b, features: [a, b], missing: zero_with_flag, window: {length: 4}");
}

TEST_CASE("a converted file is refused for another task and another tokenizer") {
  const Directory directory;
  directory.write("text.csv", "text,label\nA b a,1\nb c,0\n");
  const std::string tokenizer = "tokenizer: {type: word, lowercase: true, minimum_count: 2}\n";
  convert_to_hdf5(settings_of("data: {path: DIR/text.csv}\n" + tokenizer, directory), directory.path() / "a.h5");
  const std::string same = "data: {path: DIR/a.h5}\n";
  directory.write("series.csv", "q,a,label\nx,1,u\ny,2,v\n");
  convert_to_hdf5(settings_of("data: {path: DIR/series.csv, sequence: q}\n", directory), directory.path() / "n.h5");
  CHECK(fault_of([&] { open(same, directory); }).code == 0);  // what is not said is as the file has it
  CHECK(fault_of([&] { open(same + tokenizer, directory); }).code == 0);
  for (const auto& [config, says] :
       {std::pair(std::string("data: {path: DIR/a.h5, task: regression, target: label}\n"),
                  "data.task is regression, but the file was made for classification"),
        std::pair(same + "tokenizer: {type: byte}\n", "tokenizer.type is byte, but the file's tokens were made with word"),
        std::pair(same + "tokenizer: {vocab_size: 5}\n", "tokenizer.vocab_size is 5, but"),
        std::pair("data: {path: DIR/n.h5}\n" + tokenizer, "tokenizer.type is word, but the file has no text"),
        std::pair(same + "tokenizer: {minimum_count: 3}\n", "tokenizer.minimum_count is 3, but the file's tokens were made with 2")}) {
    CAPTURE(config);
    const Fault found = fault_of([&] { open(config, directory); });
    CHECK(found.code == 3);
    CHECK(found.says(says));
  }
}

TEST_CASE("a trained model's features and targets stand in a file in the model's order") {
  const Directory directory;
  const auto write = [&](const char* name, const std::vector<std::string>& features, const std::vector<std::string>& targets) {
    io::Hdf5File f = io::Hdf5File::create(directory.path() / name);
    f.write("/train/values", Tensor::of(std::vector<float>{1, 2, 3, 4, 5, 6}).reshaped({3, 2}));
    f.write("/train/offsets", Tensor::of(std::vector<int64_t>{0, 1, 3}));
    f.write("/train/labels", Tensor::of(std::vector<float>{0, 1, 2, 3}).reshaped({2, 2}));
    f.write_texts("/feature_names", features);
    f.write_texts("/target_names", targets);
  };
  write("a.h5", {"p", "q"}, {"x", "y"});
  write("b.h5", {"q", "p"}, {"x", "y"});
  write("c.h5", {"p", "q"}, {"y", "x"});
  write("d.h5", {"r", "s"}, {"u", "v"});  // other names for them
  const auto yaml = [](char file) { return std::string("data: {task: regression, missing: zero_with_flag, path: DIR/") + file + ".h5}\n"; };
  const data::Description known = open(yaml('a'), directory)->description();
  for (const auto& [file, says] : {std::pair('a', ""),
                                   {'b', "the features are q, p, those of the model are p, q, in this order"},
                                   {'c', "the targets are y, x, those of the model are x, y, in this order"},
                                   {'d', ""}}) {
    const Fault found = fault_of([&, file = file] { open(yaml(file), directory, {.known = &known}); });
    CAPTURE(file, found.text);
    CHECK(found.code == (*says ? 3 : 0));
    CHECK(found.says(says));
  }
}

TEST_CASE("a training part in which nothing counts is refused") {
  const Directory directory;
  directory.write("text.csv", "text,label,w\na b,1,0\nb c,0,0\n");
  directory.write("series.csv", "q,a,label,w\nx,1,u,0\ny,2,v,0\n");
  for (const char* keys :
       {"text.csv, weight: w", "series.csv, sequence: q, features: [a], weight: w", "text.csv, label_weights: {0: 0, 1: 0}"}) {
    CAPTURE(keys);
    const Fault found = fault_of([&] { open(std::string("data: {path: DIR/") + keys + "}\n", directory); });
    CHECK(found.code == 3);
    CHECK(found.says("nothing would be learned"));
  }
  convert_to_hdf5(settings_of("data: {path: DIR/text.csv}\n", directory), directory.path() / "a.h5");
  io::Hdf5File f = io::Hdf5File::create(directory.path() / "b.h5");
  f.write("/train/input_ids", Tensor::of(std::vector<int32_t>{1, 2}));
  f.write("/train/offsets", Tensor::of(std::vector<int64_t>{0, 1, 2}));
  f.write("/train/labels", Tensor::of(std::vector<int32_t>{0, 1}));
  f.write("/train/weights", Tensor::of(std::vector<float>{0, 0}));
  f.close();
  CHECK(fault_of([&] { open("data: {path: DIR/a.h5}\n", directory); }).code == 0);
  CHECK(fault_of([&] { open("data: {path: DIR/b.h5}\n", directory); }).says("nothing would be learned"));
}

TEST_CASE("an ignored tag of HDF5 is not learned") {
  const Directory directory;
  {
    io::Hdf5File f = io::Hdf5File::create(directory.path() / "a.h5");
    f.write("/train/input_ids", Tensor::of(std::vector<int32_t>{1, 2, 3, 0, 4}));
    f.write("/train/offsets", Tensor::of(std::vector<int64_t>{0, 2, 5}));
    f.write("/train/labels", Tensor::of(std::vector<int32_t>{0, 1, 2, 1, -100}));
    f.write_texts("/label_names", {"B", "-", "I"});
  }
  const auto d = open("data: {task: tagging, ignored_tag: '-', path: DIR/a.h5}\n", directory);
  CHECK(d->description().labels == std::vector<std::string>{"B", "I"});
  CHECK(sample(*d, Part::train, 0).tags == std::vector<int32_t>{0, data::ignored_target});
  CHECK(sample(*d, Part::train, 1).tags == std::vector<int32_t>{1, data::ignored_target, data::ignored_target});
  const auto all = open("data: {task: tagging, path: DIR/a.h5}\n", directory);
  CHECK(sample(*all, Part::train, 1).tags == std::vector<int32_t>{2, 1, data::ignored_target});
}

TEST_CASE("keys that an HDF5 file cannot do are faults") {
  const Directory directory;
  struct {
    const char* dataset;  // beside input_ids and offsets
    std::vector<int32_t> labels;
    const char* keys;
    const char* says;
  } const table[] = {
      {"/train/labels", {1, 0}, "window: {length: 2}", "data.window says windows of 2 rows, 2 from one to the next"},
      {"/train/labels", {1, 0}, "weight: w", "a.h5: data.weight is 'w', but the file has no /train/weights"},
      {"/train/labels", {1, 0}, "id: name", "a.h5: data.id is 'name', but the file has no /train/ids"},
      {"/train/labels", {1, 0}, "features: [a]", "a.h5: data.features names a, but the file has tokens"},
      {"/train/labels",
       {1, 0},
       "task: regression, target: [x, y]",
       "a.h5: data.target names x, y, but the file has 1 target without a name"},
      {"/train/labels", {0, 1, 1, 0, 1}, "task: tagging, ignored_tag: '0'", "data.ignored_tag is '0'"},
  };
  for (const auto& row : table) {
    CAPTURE(row.keys);
    {
      io::Hdf5File f = io::Hdf5File::create(directory.path() / "a.h5");
      f.write("/train/input_ids", Tensor::of(std::vector<int32_t>{1, 2, 3, 0, 4}));
      f.write("/train/offsets", Tensor::of(std::vector<int64_t>{0, 2, 5}));
      f.write(row.dataset, Tensor::of(row.labels));
    }
    const Fault found = fault(directory, row.keys);
    CAPTURE(found.text);
    CHECK(found.code == 3);
    CHECK(found.says(row.says));
  }
}

TEST_CASE("features, targets and classes are those that the config names") {
  const Directory directory;
  const auto write = [&](const std::vector<std::string>& texts, const std::vector<std::string>& names) {
    io::Hdf5File f = io::Hdf5File::create(directory.path() / "a.h5");
    f.write("/train/values", Tensor::of(std::vector<float>{1, 2, 3, 4, 5, 6}).reshaped({3, 2}));
    f.write("/train/offsets", Tensor::of(std::vector<int64_t>{0, 1, 3}));
    if (texts.empty()) f.write("/train/labels", Tensor::of(std::vector<float>{0, 1, 2, 3}).reshaped({2, 2}));
    else f.write_texts("/train/labels", texts);
    if (!names.empty()) f.write_texts("/feature_names", names);
  };
  write({"1", "0"}, {"p", "q"});
  CHECK(open("data: {path: DIR/a.h5, features: [p, q]}\n", directory)->description().feature_names == std::vector<std::string>{"p", "q"});
  for (const char* keys : {"features: [p]", "features: [q, p]"}) {
    const Fault found = fault(directory, keys);
    CHECK(found.code == 3);
    CHECK(found.says("but the file has p, q; "));
  }
  {
    const auto numbered = open("data: {path: DIR/a.h5, classes: 3}\n", directory);
    CHECK(numbered->description().labels == std::vector<std::string>{"0", "1", "2"});
    CHECK(sample(*numbered, Part::train, 0).label == 1);
  }
  write({"2.0", "yes"}, {});
  CHECK(open("data: {path: DIR/a.h5, features: [x, y]}\n", directory)->description().feature_names == std::vector<std::string>{"x", "y"});
  CHECK(fault(directory, "classes: 3").says("/train, example 2: the label 'yes' is no whole number"));
  write({}, {});
  CHECK(open("data: {task: regression, target: [u, v], path: DIR/a.h5}\n", directory)->description().target_names ==
        std::vector<std::string>{"u", "v"});

  io::Hdf5File f = io::Hdf5File::create(directory.path() / "a.h5");
  f.write("/train/input_ids", Tensor::of(std::vector<int32_t>{1, 2}));
  f.write("/train/offsets", Tensor::of(std::vector<int64_t>{0, 1, 2}));
  f.write("/train/labels", Tensor::of(std::vector<int32_t>{0, 1}));
  f.write_texts("/label_names", {"no", "yes"});
  f.close();
  const Fault named = fault(directory, "classes: 2");
  CHECK(named.code == 3);
  CHECK(named.says("with data.classes: 2 labels are 0 to 1, but /label_names has no, yes"));
}
