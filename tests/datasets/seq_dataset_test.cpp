// SPDX-License-Identifier: Apache-2.0
#include "datasets/seq_dataset.h"

#include <cmath>
#include <cstdlib>
#include <limits>

#include "datasets/statistics.h"
#include "framework/data/tokenizer.h"
#include "framework/io/hdf5.h"
#include "tests/datasets/files.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::datasets;
using namespace tapeformer::testing;
using data::Part;

namespace {

void same(const data::Dataset& a, const data::Dataset& b) {
  CHECK(a.description().labels == b.description().labels);
  CHECK(a.description().target_names == b.description().target_names);
  CHECK(a.description().vocab_size == b.description().vocab_size);
  CHECK(a.description().feature_names == b.description().feature_names);
  CHECK(a.description().max_length == b.description().max_length);
  for (const Part part : {Part::train, Part::valid, Part::test}) {
    REQUIRE(a.size(part) == b.size(part));
    for (int64_t i = 0; i < a.size(part); ++i) {
      const data::Sample x = sample(a, part, i), y = sample(b, part, i);
      CHECK(a.length(part, i) == b.length(part, i));
      CHECK(x.tokens == y.tokens);
      CHECK(x.values == y.values);
      CHECK(x.label == y.label);
      CHECK(x.target == y.target);
      CHECK(x.tags == y.tags);
      CHECK(x.weight == y.weight);
      CHECK(x.id == y.id);
    }
  }
}

// A small file of tokens; parts of it are replaced by the tests.
struct Parts {
  std::vector<int64_t> offsets{0, 2, 5};
  std::vector<int64_t> tokens{1, 2, 3, 0, 4};
  std::vector<double> labels{1, 0};
  std::vector<std::string> names{"no", "yes"};
  int64_t vocab_size = 5;
};

void write(const std::string& path, const Parts& p) {
  io::Hdf5File f = io::Hdf5File::create(path);
  f.write("/train/input_ids", Tensor::of(p.tokens));
  f.write("/train/offsets", Tensor::of(p.offsets));
  f.write("/train/labels", Tensor::of(p.labels));
  if (!p.names.empty()) f.write_texts("/label_names", p.names);
  if (p.vocab_size > 0) f.write_attribute("/", "vocab_size", p.vocab_size);
}

}  // namespace

TEST_CASE("text converted to HDF5 comes back the same") {
  const Directory directory;
  directory.write("a.csv", "id,text,label,w\nx,a b c,10,1\ny,b,9,2\nz,c c a b,10,0.5\n");
  directory.write("b.csv", "id,text,label,w\nv,a zebra,9,1\n");
  const auto from = open("data: {train: {path: DIR/a.csv}, test: {path: DIR/b.csv}, id: id, weight: w}\n", directory);
  convert_to_hdf5(*from, directory.path() / "a.h5");
  const auto to = open("data: {path: DIR/a.h5}\n", directory);
  same(*from, *to);
  CHECK(to->description().tokenizer_json == from->description().tokenizer_json);
  setenv("SOURCE_DATE_EPOCH", "1", 1);
  convert_to_hdf5(*from, directory.path() / "a.h5");
  CHECK(std::get<std::string>(*io::Hdf5File::open(directory.path() / "a.h5").attribute("/", "created")) == "1970-01-01T00:00:01Z");
  const std::string first = slurp(directory / "a.h5");
  convert_to_hdf5(*from, directory.path() / "a.h5");
  CHECK((slurp(directory / "a.h5") == first));
  unsetenv("SOURCE_DATE_EPOCH");
  convert_to_hdf5(*from, directory.path() / "packed.h5", true);
  CHECK(io::Hdf5File::open(directory.path() / "packed.h5").dataset("/train/input_ids").chunk().has_value());
  same(*from, *open("data: {path: DIR/packed.h5}\n", directory));
  const auto test = open("data: {path: DIR/a.h5}\n", directory, {&from->description(), {Part::test}});
  CHECK(test->size(Part::train) == 0);
  CHECK(sample(*test, Part::test, 0).tokens == sample(*from, Part::test, 0).tokens);
  const std::string text = statistics_text(*to);
  CHECK(text.find("train: 3 samples") != std::string::npos);
  CHECK(text.find("least 1, median 3, mean 2.67, most 4, rows together 8") != std::string::npos);
  CHECK(text.find("vocabulary 4") != std::string::npos);
  CHECK(inspect_text(*to, Part::train, 1) == "train x (3 rows) label 10\n  a b c\n");
}

TEST_CASE("tags, targets and numbers converted to HDF5 come back the same") {
  const Directory directory;
  directory.write("t.jsonl", "{\"tokens\":[\"a\",\"b\"],\"tags\":[\"X\",\"-\"]}\n{\"tokens\":[\"c\"],\"tags\":[\"Y\"]}\n");
  const auto tags = open("data: {task: tagging, ignored_tag: '-', path: DIR/t.jsonl}\n", directory);
  convert_to_hdf5(*tags, directory.path() / "t.h5");
  same(*tags, *open("data: {task: tagging, path: DIR/t.h5}\n", directory));

  directory.write("r.csv", "text,x,y\na,1,2\nb b,3,4\n");
  const auto targets = open("data: {task: regression, target: [x, y], path: DIR/r.csv}\n", directory);
  convert_to_hdf5(*targets, directory.path() / "r.h5");
  same(*targets, *open("data: {task: regression, path: DIR/r.h5}\n", directory));

  directory.write("s.csv", "sequence,a,b,label\ns,1,,x\ns,3,7,x\nt,,9,y\n");
  const std::string keys = "missing: zero_with_flag, ";
  const auto raw = open("data: {" + keys + "standardize: false, sequence: sequence, path: DIR/s.csv}\n", directory);
  convert_to_hdf5(*raw, directory.path() / "s.h5");
  same(*open("data: {" + keys + "sequence: sequence, path: DIR/s.csv}\n", directory),
       *open("data: {" + keys + "path: DIR/s.h5}\n", directory));
  const Fault fault = fault_of([&] { open("data: {path: DIR/s.h5}\n", directory); });
  CHECK(fault.code == 3);
  CHECK(fault.says("/train, example 1, row 1, column 'b'"));
  CHECK(fault.says("2 such values"));
}

TEST_CASE("foreign widths, dense arrays and texts as labels are read") {
  const Directory directory;
  write(directory / "a.h5", {});
  const auto d = open("data: {path: DIR/a.h5}\n", directory);
  CHECK(d->description().vocab_size == 5);
  CHECK(sample(*d, Part::train, 1).tokens == std::vector<int32_t>{3, 0, 4});
  CHECK(sample(*d, Part::train, 0).label == 1);
  CHECK(data::Tokenizer::from_json(d->description().tokenizer_json).number("4") == 4);
  write(directory / "b.h5", {{0, 2, 5}, {1, 2, 3, 0, 4}, {1, 2}, {}, 0});
  CHECK(open("data: {path: DIR/b.h5}\n", directory)->description().labels == std::vector<std::string>{"0", "1", "2"});

  {
    io::Hdf5File f = io::Hdf5File::create(directory.path() / "x.h5");
    f.write("/train/X", Tensor::of(std::vector<uint8_t>{0, 1, 2, 3, 4, 5, 6, 255}).reshaped({2, 2, 2}));
    f.write_texts("/train/labels", {"b", "a"});
  }
  const auto dense = open("data: {path: DIR/x.h5, standardize: false}\n", directory);
  CHECK(dense->description().feature_names == std::vector<std::string>{"feature1", "feature2"});
  CHECK(sample(*dense, Part::train, 1).values == std::vector<float>{4, 5, 6, 255});
  CHECK(sample(*dense, Part::train, 0).label == 1);
  CHECK(data::read_batch(*dense, Part::train, {0, 1}).values.shape() == Shape({4, 2}));
}

TEST_CASE("long examples are cut when read, empty ones left out") {
  const Directory directory;
  write(directory / "a.h5", {{0, 4, 4, 5}, {1, 2, 3, 0, 4}, {1, 0, 0}, {"no", "yes"}, 5});
  const auto d = open("data: {path: DIR/a.h5, empty: skip, max_length: 3, truncate: middle}\n", directory);
  CHECK(d->size(Part::train) == 2);
  CHECK(d->length(Part::train, 0) == 3);
  CHECK(sample(*d, Part::train, 0).tokens == std::vector<int32_t>{1, 2, 0});
  CHECK(sample(*d, Part::train, 1).id == "3");
  CHECK(fault_of([&] { open("data: {path: DIR/a.h5}\n", directory); }).says("/train, example 2: an empty sample"));
  CHECK(fault_of([&] { open("data: {path: DIR/a.h5, empty: skip, max_length: 3}\n", directory); }).says("/train, example 1"));
}

TEST_CASE("faults of a file are found when it is opened") {
  const Directory directory;
  const int64_t big = std::numeric_limits<int64_t>::max();
  struct {
    Parts parts;
    const char* says;
  } const table[] = {
      {{{0, 2, 5}, {1, 2, 3, 5, 4}, {1, 0}, {"no", "yes"}, 5}, "/train, example 2, position 2: the token 5 is outside 0 to 4"},
      {{{0, 2, 5}, {1, -26, 3, 0, 4}, {1, 0}, {"no", "yes"}, 5}, "/train, example 1, position 2: the token -26"},
      {{{0, 2, 5}, {1, 2, 3, 0, int64_t{1} << 31}, {1, 0}, {"no", "yes"}, 5}, "/train/input_ids"},
      {{{0, 2, 5}, {1, 2, 3, 0, big}, {1, 0}, {"no", "yes"}, 5}, "/train/input_ids"},
      {{{0, 2, 5}, {1, 2, 3, 0, 4}, {1, 2}, {"no", "yes"}, 5}, "/train, example 2: the label 2 is outside 0 to 1; labels count from 0"},
      {{{0, 2, 5}, {1, 2, 3, 0, 4}, {1, -4}, {"no", "yes"}, 5}, "/train, example 2: the label -4"},
      {{{0, 2, 5}, {1, 2, 3, 0, 4}, {1, 0.5}, {"no", "yes"}, 5}, "/train/labels"},
      {{{0, 2, 5}, {1, 2, 3, 0, 4}, {1, std::nan("")}, {"no", "yes"}, 5}, "/train/labels"},
      {{{0, 2, 5}, {1, 2, 3, 0, 4}, {1}, {"no", "yes"}, 5}, "/train/labels has 1 rows, 2 are expected"},
      {{{0, 2, 6}, {1, 2, 3, 0, 4}, {1, 0}, {"no", "yes"}, 5}, "/train/offsets ends with 6"},
      {{{0, 3, 2, 5}, {1, 2, 3, 0, 4}, {1, 0, 0}, {"no", "yes"}, 5}, "/train/offsets[2] is 2"},
      {{{1, 5}, {1, 2, 3, 0, 4}, {1}, {"no", "yes"}, 5}, "/train/offsets[0] is 1"},
      {{{0, 2, 5}, {1, 2, 3, 0, 4}, {1, 0}, {"no", "yes"}, int64_t{1} << 60}, "a vocabulary of"},
  };
  for (const auto& row : table) {
    write(directory / "a.h5", row.parts);
    const Fault fault = fault_of([&] { open("data: {path: DIR/a.h5}\n", directory); });
    CAPTURE(row.says, fault.text);
    CHECK(fault.code == 3);
    CHECK(fault.says(row.says));
  }
  directory.write("a.h5", "not HDF5");
  CHECK(fault_of([&] { open("data: {path: DIR/a.h5}\n", directory); }).code == 3);
  CHECK(fault_of([&] { open("data: {path: DIR/none.h5}\n", directory); }).code == 3);
}

TEST_CASE("files of other layouts by their names, by guess and cut by seed") {
  const Directory directory;
  {
    io::Hdf5File f = io::Hdf5File::create(directory.path() / "a.h5");
    std::vector<int32_t> tokens, labels;
    for (int32_t i = 0; i < 40; ++i) {
      tokens.insert(tokens.end(), {i, 1, 2});
      labels.push_back(i % 2);
    }
    f.write("/sequences", Tensor::of(tokens).reshaped({40, 3}));
    f.write("/labels", Tensor::of(labels));
    f.write("/deep/other", Tensor::of(labels));
  }
  const auto d = open("data: {path: DIR/a.h5}\n", directory);
  CHECK(d->size(Part::train) == 40);
  CHECK(sample(*d, Part::train, 7).tokens == std::vector<int32_t>{7, 1, 2});
  CHECK(sample(*d, Part::train, 7).label == 1);
  CHECK(d->report()[0] ==
        directory / "a.h5" + ": guessed the sequences in /sequences, the labels in /labels; data.input and data.label name others");
  const auto half = open("data: {path: DIR/a.h5, input: sequences, max_length: 2, truncate: left}\n", directory);
  CHECK(half->report()[0].find("guessed the labels in /labels") != std::string::npos);
  CHECK(sample(*half, Part::train, 7).tokens == std::vector<int32_t>{1, 2});
  const auto named = open("data: {path: DIR/a.h5, input: /sequences, label: /deep/other, id: /deep/other}\n", directory);
  CHECK(named->report()[0].find("guessed") == std::string::npos);
  CHECK(sample(*named, Part::train, 3).id == "1");

  const auto cut = open("data: {path: DIR/a.h5, split: {valid: 0.25, test: 0.25}}\n", directory);
  CHECK(cut->size(Part::train) == 20);
  CHECK(cut->size(Part::valid) == 10);
  CHECK(cut->size(Part::test) == 10);
  std::vector<int> seen(40), ones(3);
  for (const Part part : {Part::train, Part::valid, Part::test})
    for (int64_t i = 0; i < cut->size(part); ++i) {
      ++seen[static_cast<size_t>(sample(*cut, part, i).tokens[0])];
      ones[static_cast<size_t>(part)] += sample(*cut, part, i).label;
    }
  CHECK(seen == std::vector<int>(40, 1));
  CHECK(ones == std::vector<int>{10, 5, 5});

  const Fault fault = fault_of([&] { open("data: {path: DIR/a.h5, input: /none}\n", directory); });
  CHECK(fault.code == 3);
  CHECK(fault.says("no data set /none; name it with data.input (the file has /deep, /deep/other, /labels, /sequences)"));
}

TEST_CASE("a file of our own layout need not have the training part") {
  const Directory directory;
  directory.write("a.csv", "text,label\na b,x\nb,y\n");
  directory.write("b.csv", "text,label\nb a,y\n");
  const auto from = open("data: {train: {path: DIR/a.csv}, valid: {path: DIR/b.csv}, test: {path: DIR/b.csv}}\n", directory);
  convert_to_hdf5(*from, directory.path() / "all.h5");
  // Others write the layout without its attributes, data convert with them.
  for (const bool marked : {false, true}) {
    CAPTURE(marked);
    io::Hdf5File f = io::Hdf5File::create(directory.path() / "rest.h5");
    if (marked) f.write_attribute("/", "encoding-type", std::string("seq-dataset"));
    if (marked) f.write_attribute("/", "encoding-version", std::string("1.0"));
    for (const char* group : {"/valid", "/test"}) {
      f.write(std::string(group) + "/input_ids", Tensor::of(std::vector<int32_t>{1, 0}));
      f.write(std::string(group) + "/offsets", Tensor::of(std::vector<int64_t>{0, 2}));
      f.write(std::string(group) + "/labels", Tensor::of(std::vector<int32_t>{1}));
    }
    f.close();
    const std::string yaml = "data: {train: {path: DIR/all.h5}, valid: {path: DIR/rest.h5}, test: {path: DIR/rest.h5}}\n";
    const auto d = open(yaml, directory);
    CHECK(sample(*d, Part::valid, 0).tokens == std::vector<int32_t>{1, 0});
    CHECK(sample(*d, Part::test, 0).label == 1);
    const Fault fault = fault_of([&] { open("data: {path: DIR/rest.h5}\n", directory); });
    CHECK(fault.code == 3);
    CHECK(fault.says("rest.h5: no group /train"));
  }
  {
    io::Hdf5File f = io::Hdf5File::create(directory.path() / "other.h5");  // a group of that name is not enough
    f.write("/x", Tensor::of(std::vector<int32_t>{1, 2, 3, 4}).reshaped({2, 2}));
    f.write("/y", Tensor::of(std::vector<int32_t>{0, 1}));
    f.write("/test/x", Tensor::of(std::vector<int32_t>{1, 2}).reshaped({1, 2}));
    f.write("/test/y", Tensor::of(std::vector<int32_t>{0}));
  }
  CHECK(open("data: {path: DIR/other.h5}\n", directory)->size(Part::train) == 2);
}

TEST_CASE("statistics of a cut file come from the training part alone") {
  const Directory directory;
  std::vector<float> values;
  for (int i = 0; i < 40; ++i) values.push_back(static_cast<float>(i * i));
  {
    io::Hdf5File f = io::Hdf5File::create(directory.path() / "a.h5");
    f.write("/x", Tensor::of(values).reshaped({40, 1}));
    f.write("/y", Tensor::of(std::vector<double>(40, 0.5)));
  }
  const auto d = open("data: {task: regression, path: DIR/a.h5, split: {valid: 0.5}}\n", directory);
  double sum = 0;
  for (int64_t i = 0; i < d->size(Part::train); ++i) {
    const double raw = values[static_cast<size_t>(std::stoi(sample(*d, Part::train, i).id) - 1)];
    sum += raw;
  }
  CHECK(std::abs(d->description().feature_mean.span<double>()[0] - sum / static_cast<double>(d->size(Part::train))) < 1e-9);
}
