// SPDX-License-Identifier: Apache-2.0
#include "datasets/text_table.h"

#include <algorithm>
#include <set>

#include "datasets/listops.h"
#include "framework/data/tokenizer.h"
#include "tests/datasets/files.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::datasets;
using namespace tapeformer::testing;
using data::Part;

namespace {

bool reports(const data::Dataset& d, std::string_view text) {
  const auto lines = d.report();
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

}  // namespace

TEST_CASE("ListOps files from end to end") {
  const Directory directory;
  ListopsSettings listops;
  listops.digit_probability = {0, 0.7, 1};
  listops.max_arguments = 5;
  listops.min_length = 0;
  listops.max_length = 100;
  listops.train = 1000;
  listops.valid = 50;
  listops.test = 60;
  make_listops(listops, directory.path());
  const auto d =
      open("data: {text: Source, label: Target, train: {path: DIR/train.tsv}, valid: {path: DIR/valid.tsv}, test: {path: DIR/test.tsv}}\n",
           directory);
  CHECK(d->size(Part::train) == 1000);
  CHECK(d->size(Part::valid) == 50);
  CHECK(d->size(Part::test) == 60);
  CHECK(d->description().labels == std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"});
  CHECK(d->description().vocab_size == 16);  // <unk>, ten digits, four operators, the bracket
  CHECK(d->description().outputs() == 10);
  CHECK(reports(*d, "valid: 0 of"));
  CHECK_FALSE(reports(*d, "stand in"));
  const auto all = generate_listops(listops);
  const auto tokenizer = data::Tokenizer::from_json(d->description().tokenizer_json);
  for (int64_t i : {0, 7, 49}) {
    const data::Sample s = sample(*d, Part::valid, i);
    CHECK(tokenizer.decode(s.tokens) == all[static_cast<size_t>(1000 + i)].source);
    CHECK(s.label == all[static_cast<size_t>(1000 + i)].target);
    CHECK(d->length(Part::valid, i) == static_cast<int32_t>(s.tokens.size()));
    CHECK(s.id == std::to_string(i + 1));
  }
  const data::Batch batch = data::read_batch(*d, Part::test, {5, 2, 59});
  CHECK(batch.packing.sequences() == 3);
  CHECK(batch.packing.sample_ids() == std::vector<uint32_t>{5, 2, 59});
  CHECK(batch.targets.span<int32_t>()[2] == all[1109].target);
}

TEST_CASE("every table format gives the same samples") {
  const Directory directory;
  directory.write("a.csv", "\xEF\xBB\xBFid,text,label,w\r\nfirst,\"red, \"\"big\"\"\",10,1\r\nsecond,blue\tbox,9,0.5\r\n");
  directory.write("a.tsv", "id\ttext\tlabel\tw\nfirst\t\"red, \"\"big\"\"\"\t10\t1\nsecond\t\"blue\tbox\"\t9\t0.5");
  directory.write("a.jsonl",
                  "\xEF\xBB\xBF{\"id\":\"first\",\"text\":\"red, "
                  "\\\"big\\\"\",\"label\":10,\"w\":1}\r\n\r\n{\"text\":\"blue\\tbox\",\"id\":\"second\",\"label\":\"9\",\"w\":\"0.5\"}\n");
  std::set<std::string> fingerprints;
  for (const char* name : {"a.csv", "a.tsv", "a.jsonl"}) {
    CAPTURE(name);
    const auto d = open(std::string("data: {path: DIR/") + name + ", id: id, weight: w}\n", directory);
    REQUIRE(d->size(Part::train) == 2);
    CHECK(d->size(Part::valid) == 0);
    CHECK(d->description().labels == std::vector<std::string>{"9", "10"});
    const data::Sample a = sample(*d, Part::train, 0), b = sample(*d, Part::train, 1);
    CHECK(a.id == "first");
    CHECK(b.id == "second");
    CHECK(a.label == 1);
    CHECK(b.label == 0);
    CHECK(b.weight == 0.5F);
    const auto tokenizer = data::Tokenizer::from_json(d->description().tokenizer_json);
    CHECK(tokenizer.decode(a.tokens) == "red, \"big\"");
    CHECK(tokenizer.decode(b.tokens) == "blue box");
    CHECK(d->description().max_length == 2);
    CHECK(data::read_batch(*d, Part::train, {0, 1}).weights.span<float>()[1] == 0.5F);
    fingerprints.insert(d->description().fingerprint);
  }
  CHECK(fingerprints.size() == 3);
}

TEST_CASE("numbers of JSONL are texts as they are typed") {
  const Directory directory;
  directory.write(
      "a.jsonl",
      "{\"id\":123456789012345678900,\"text\":1e3,\"label\":1.50}\n{\"label\":7,\"id\":2,\"id\":123456789012345678901,\"text\":-0.0}\n"
      "{\"id\":{\"a\":1.0},\"id\":18446744073709551615,\"text\":true,\"label\":\"1.50\"}\n");
  const auto d = open("data: {path: DIR/a.jsonl, id: id}\n", directory);
  CHECK(sample(*d, Part::train, 0).id == "123456789012345678900");
  CHECK(sample(*d, Part::train, 1).id == "123456789012345678901");
  CHECK(sample(*d, Part::train, 2).id == "18446744073709551615");
  CHECK(d->description().labels == std::vector<std::string>{"1.50", "7"});
  CHECK(sample(*d, Part::train, 2).label == 0);
  const auto tokenizer = data::Tokenizer::from_json(d->description().tokenizer_json);
  CHECK(tokenizer.decode(sample(*d, Part::train, 0).tokens) == "1e3");
  CHECK(tokenizer.decode(sample(*d, Part::train, 1).tokens) == "-0.0");
  CHECK(tokenizer.decode(sample(*d, Part::train, 2).tokens) == "true");

  directory.write("t.jsonl", "{\"tokens\":[\"a\",2.50,3,[1.0]],\"tokens\":[1.0,\"b\",2.50,4],\"tags\":[1.0,2,10.00,1]}\n");
  const auto tags = open("data: {task: tagging, path: DIR/t.jsonl}\n", directory);
  CHECK(tags->description().labels == std::vector<std::string>{"1", "1.0", "2", "10.00"});
  CHECK(data::Tokenizer::from_json(tags->description().tokenizer_json).decode(sample(*tags, Part::train, 0).tokens) == "1.0 b 2.50 4");

  directory.write("r.jsonl", "{\"text\":\"a\",\"target\":1.50}\n{\"text\":\"b\",\"target\":123456789012345678900}\n");
  const auto r = open("data: {task: regression, path: DIR/r.jsonl}\n", directory);
  CHECK(sample(*r, Part::train, 0).target == std::vector<float>{1.5F});
  CHECK(sample(*r, Part::train, 1).target == std::vector<float>{1.2345678901234568e20F});
}

TEST_CASE("regression with one and several targets") {
  const Directory directory;
  directory.write("a.csv", "text,x,y\na b,1.5,-2\nc,1e3,0.25\n");
  const auto one = open("data: {path: DIR/a.csv, task: regression, target: y}\n", directory);
  CHECK(one->description().outputs() == 1);
  CHECK(sample(*one, Part::train, 0).target == std::vector<float>{-2});
  const auto two = open("data: {path: DIR/a.csv, task: regression, target: [x, y]}\n", directory);
  CHECK(two->description().target_names == std::vector<std::string>{"x", "y"});
  CHECK(sample(*two, Part::train, 1).target == std::vector<float>{1000, 0.25F});
  CHECK(data::read_batch(*two, Part::train, {1, 0}).targets.shape() == Shape({2, 2}));
}

TEST_CASE("tagging from arrays and from columns of words") {
  const Directory directory;
  directory.write("a.jsonl",
                  "{\"tokens\":[\"New\",\"York\",\"is\"],\"tags\":[\"B\",\"I\",\"O\"]}\n{\"tokens\":[\"so\"],\"tags\":[\"-\"]}\n");
  directory.write("a.csv", "tokens,tags\nNew York is,B I O\nso,-\n");
  for (const char* name : {"a.jsonl", "a.csv"}) {
    const auto d = open(std::string("data: {task: tagging, ignored_tag: '-', path: DIR/") + name + "}\n", directory);
    CHECK(d->description().labels == std::vector<std::string>{"B", "I", "O"});
    CHECK(sample(*d, Part::train, 0).tags == std::vector<int32_t>{0, 1, 2});
    CHECK(sample(*d, Part::train, 1).tags == std::vector<int32_t>{-100});
    const data::Batch batch = data::read_batch(*d, Part::train, {1, 0});
    CHECK(batch.targets.span<int32_t>()[0] == -100);
    CHECK(batch.targets.count() == 4);
  }
  const auto cut = open("data: {task: tagging, ignored_tag: '-', path: DIR/a.csv, max_length: 2, truncate: left}\n", directory);
  CHECK(sample(*cut, Part::train, 0).tags == std::vector<int32_t>{1, 2});
  CHECK(reports(*cut, "train: 1 sequences cut to 2 rows"));
}

TEST_CASE("a label or a tag with a NUL byte is refused with its row") {
  const Directory directory;
  directory.write("a.jsonl", "{\"text\":\"a\",\"label\":\"x\"}\n{\"text\":\"b\",\"label\":\"x\\u0000y\"}\n");
  directory.write("b.jsonl", "{\"tokens\":[\"a\"],\"tags\":[\"B\"]}\n{\"tokens\":[\"b\"],\"tags\":[\"I\\u0000\"]}\n");
  for (const char* yaml : {"data: {path: DIR/a.jsonl}\n", "data: {task: tagging, path: DIR/b.jsonl}\n"}) {
    const Fault fault = fault_of([&] { open(yaml, directory); });
    CHECK(fault.code == 3);
    CHECK(fault.says(".jsonl:2: row 2"));
    CHECK(fault.says("NUL"));
  }
}

TEST_CASE("parts by seed are stratified, disjoint and repeatable") {
  const Directory directory;
  std::string csv = "text,label\n";
  for (int i = 0; i < 200; ++i) csv += "word" + std::to_string(i) + "," + (i % 4 == 0 ? "rare" : "common") + "\n";
  directory.write("a.csv", csv);
  const std::string yaml = "data: {path: DIR/a.csv, split: {valid: 0.1, test: 0.2, seed: 1}}\n";
  const auto d = open(yaml, directory);
  CHECK(d->size(Part::train) == 140);
  CHECK(d->size(Part::valid) == 20);
  CHECK(d->size(Part::test) == 40);
  std::set<std::string> ids;
  int rare = 0;
  for (const Part part : {Part::train, Part::valid, Part::test})
    for (int64_t i = 0; i < d->size(part); ++i) {
      const data::Sample s = sample(*d, part, i);
      ids.insert(s.id);
      rare += part == Part::test && s.label == 1;
    }
  CHECK(ids.size() == 200);
  CHECK(rare == 10);
  CHECK(d->description().vocab_size == 141);  // the other parts' words are unknown
  CHECK(reports(*d, "valid: 20 of 20 tokens unknown (100 %)"));
  CHECK(sample(*open(yaml, directory), Part::test, 3).id == sample(*d, Part::test, 3).id);
  const auto balanced = open("data: {path: DIR/a.csv, class_weights: balanced}\n", directory);
  CHECK(balanced->description().class_weights == std::vector<double>{200.0 / 300, 2});
  const auto by_hand = open("data: {path: DIR/a.csv, label_weights: {rare: 3}}\n", directory);
  CHECK(by_hand->description().class_weights == std::vector<double>{1, 3});
  CHECK(fault_of([&] { open("data: {path: DIR/a.csv, label_weights: {rara: 3}}\n", directory); }).says("did you mean 'rare'"));
}

TEST_CASE("a known description brings its own vocabulary, labels and length") {
  const Directory directory;
  directory.write("a.csv", "text,label\na b c,x\nb c,y\n");
  directory.write("b.csv", "text,label\nc zebra,y\n");
  const std::string yaml = "data: {train: {path: DIR/a.csv}, test: {path: DIR/b.csv}, truncate: right}\n";
  const data::Description known = open(yaml, directory)->description();
  directory.write("a.csv", "not even a table with its columns\n");
  const auto d = open(yaml, directory, {&known, {Part::test}});
  CHECK(d->size(Part::train) == 0);
  CHECK(sample(*d, Part::test, 0).label == 1);
  CHECK(sample(*d, Part::test, 0).tokens == std::vector<int32_t>{2, 0});
  CHECK(d->description().max_length == 3);
  directory.write("b.csv", "text,label\nc,z\n");
  const Fault fault = fault_of([&] { open(yaml, directory, {&known, {Part::test}}); });
  CHECK(fault.code == 3);
  CHECK(fault.says("'z'"));
}

TEST_CASE("the targets of a trained model are those of the file that a part is read from") {
  const Directory directory;
  std::string text = "text,x,y\n", series = "q,a,x,y\n";
  for (int i = 0; i < 20; ++i) text += fmt::format("w,{},{}\n", i, -i), series += fmt::format("s{},1,{},{}\n", i, i, -i);
  directory.write("t.csv", text);
  directory.write("s.csv", series);
  for (const std::string keys : {"t.csv, target: TARGET", "s.csv, target: TARGET, sequence: q, features: [a]"}) {
    const auto yaml = [&](const std::string& target) {
      std::string own = keys;
      own.replace(own.find("TARGET"), 6, target);
      return "data: {task: regression, train: {path: DIR/" + own + "}, split: {valid: 0.2, test: 0.2}}\n";
    };
    const data::Description known = open(yaml("[x, y]"), directory)->description();
    const auto again = open(yaml("[x, y]"), directory, {.known = &known});  // as a run that goes on
    CHECK(again->size(Part::test) == 4);
    CHECK(again->description().fingerprint == known.fingerprint);
    CHECK(open(yaml("[x, y]"), directory, {.known = &known, .parts = {Part::test}})->size(Part::test) == 4);
    for (const char* other : {"[y, x]", "x", "[x, y, a]"})
      CHECK(fault_of([&] { open(yaml(other), directory, {.known = &known, .parts = {Part::test}}); }).code == 3);
  }
}

TEST_CASE("the training file is read only for parts that come from it") {
  const Directory directory;
  std::string csv = "text,label\n";
  for (int i = 0; i < 20; ++i) csv += i % 2 ? "a b,x\n" : "b c,y\n";
  directory.write("a.csv", csv);
  directory.write("b.csv", "text,label\nc b,y\n");
  const std::string yaml = "data: {train: {path: DIR/a.csv}, test: {path: DIR/b.csv}, split: {valid: 0.2}}\n";
  const data::Description known = open(yaml, directory)->description();
  CHECK(open(yaml, directory, {&known, {Part::valid}})->size(Part::valid) == 4);
  std::filesystem::remove(directory / "a.csv");
  CHECK(sample(*open(yaml, directory, {&known, {Part::test}}), Part::test, 0).label == 1);
  const Fault fault = fault_of([&] { open(yaml, directory, {&known, {Part::valid}}); });
  CHECK(fault.code == 3);
  CHECK(fault.says("a.csv"));
}

TEST_CASE("too long and empty sequences follow the policy") {
  const Directory directory;
  directory.write("a.csv", "text,label\na b c d e,x\n\"\",x\na b,y\n");
  const auto tokens = [&](const std::string& policy, int64_t index) {
    const auto d = open("data: {path: DIR/a.csv, max_length: 4, empty: skip, truncate: " + policy + "}\n", directory);
    return data::Tokenizer::from_json(d->description().tokenizer_json).decode(sample(*d, Part::train, index).tokens);
  };
  CHECK(tokens("right", 0) == "a b c d");
  CHECK(tokens("left", 0) == "b c d e");
  CHECK(tokens("middle", 0) == "a b d e");
  CHECK(tokens("middle", 1) == "a b");
  const Fault length = fault_of([&] { open("data: {path: DIR/a.csv, max_length: 4, empty: skip}\n", directory); });
  CHECK(length.code == 3);
  CHECK(length.says("a.csv:2: row 1, column 'text'"));
  CHECK(length.says("data.truncate"));
  const Fault empty = fault_of([&] { open("data: {path: DIR/a.csv}\n", directory); });
  CHECK(empty.code == 3);
  CHECK(empty.says("a.csv:3: row 2, column 'text'"));
  const auto skipped = open("data: {path: DIR/a.csv, empty: skip}\n", directory);
  CHECK(skipped->size(Part::train) == 2);
  CHECK(sample(*skipped, Part::train, 1).id == "3");
  CHECK(reports(*skipped, "1 empty samples left out"));
}

TEST_CASE("overlap of the parts and lacking classes are reported") {
  const Directory directory;
  directory.write("a.csv", "text,label\na,x\nb,y\nb c,z\n");
  directory.write("b.csv", "text,label\nb,y\nb,x\nc a,y\n");
  const auto d = open("data: {train: {path: DIR/a.csv}, valid: {path: DIR/b.csv}}\n", directory);
  CHECK(reports(*d, "2 of the 3 samples of valid stand in train"));
  CHECK(reports(*d, "valid has no sample of 1 of the 3 labels: z"));
}

TEST_CASE("faults of the data name file, line, row and column") {
  const Directory directory;
  struct {
    const char* name;
    const char* bytes;
    const char* keys;
    const char* says;
  } const table[] = {
      {"a.csv", "text,label\na,x\nb,\n", "", "a.csv:3: row 2, column 'label': the label is missing"},
      {"a.csv", "text,label\na,0\nb,10\n", "classes: 10", "a.csv:3: row 2, column 'label'"},
      {"a.csv", "text,label\na,0\nb,2.7\n", "classes: 10", "no whole number"},
      {"a.csv", "txt,label\na,x\n", "", "did you mean 'txt'"},
      {"a.csv", "text,label\n", "", "no training sample"},
      {"a.csv", "", "", "empty"},
      {"a.csv", "text,label\na,x\nb\n", "", "a.csv:3"},
      {"a.csv", "text,label\n\"a,x\n", "", "a.csv:2"},
      {"a.csv", "text,label\na\xff,x\n", "", "latin-1"},
      {"a.csv", "text,target\na,1\nb,nan\n", "task: regression", "a.csv:3: row 2, column 'target'"},
      {"a.csv", "text,target\na,1\nb,1e39\n", "task: regression", "a.csv:3: row 2, column 'target'"},
      {"a.csv", "text,target\na,1\nb,\"1,5\"\n", "task: regression", "'1,5' is no number"},
      {"a.csv", "text,label,w\na,x,1\nb,x,-1\n", "weight: w", "a.csv:3: row 2, column 'w'"},
      {"a.csv", "tokens,tags\na b,X\n", "task: tagging", "a.csv:2: row 1, column 'tags': 1 tags for 2 words"},
      {"a.jsonl", "{\"text\":\"a\",\"label\":1}\n{\"text\":\"a\"}\n", "", "a.jsonl:2: row 2, column 'label': the row has no such key"},
      {"a.jsonl", "{\"text\":\"a\",\"label\":1}\n{\"text\":[1],\"label\":1}\n", "", "a.jsonl:2: row 2, column 'text'"},
      {"a.jsonl", "{\"text\":\"a\",\"label\":1}\n\n{\"text\":\n", "", "a.jsonl:3:"},
      {"a.jsonl", "[1]\n", "", "a.jsonl:1: one JSON object"},
      {"a.jsonl", "1.5\n", "", "a.jsonl:1: one JSON object"},
      {"a.jsonl", "{\"text\":\"a\",\"label\":1}x\n", "", "a.jsonl:1:23: not valid JSON"},
      {"a.jsonl", "{\"text\":\"a\",\"label\":01}\n", "", "a.jsonl:1:22: not valid JSON"},
      {"a.jsonl", "{\"text\":\"a\",\"label\":1e999}\n", "", "a.jsonl:1: a number is larger than a double can hold"},
      {"a.jsonl", "{\"txt\":\"a\",\"label\":1}\n", "", "did you mean 'txt'"},
      {"a.jsonl", "{\"text\":\"a\",\"label\":1}\n{\"text\":\"\xe9\",\"label\":1}\n", "", "a.jsonl:2: the byte 0xe9 at offset 32"},
      {"a.jsonl", "{\"tokens\":[\"a\",null],\"tags\":[\"x\",\"y\"]}\n", "task: tagging", "element 2"},
      {"a.jsonl", "{\"tokens\":[\"a\"],\"tags\":[\"\"]}\n", "task: tagging", "a.jsonl:1: row 1, column 'tags'"},
  };
  for (const auto& row : table) {
    CAPTURE(row.name, row.bytes);
    directory.write(row.name, row.bytes);
    const std::string yaml = std::string("data: {path: DIR/") + row.name + (*row.keys ? ", " : "") + row.keys + "}\n";
    const Fault fault = fault_of([&] { open(yaml, directory); });
    CHECK(fault.code == 3);
    CAPTURE(fault.text);
    CHECK(fault.says(row.says));
  }
  CHECK(fault_of([&] { open("data: {path: DIR/none.csv}\n", directory); }).code == 3);
  CHECK(fault_of([&] { open("data: {path: DIR/none.jsonl}\n", directory); }).code == 3);
}

TEST_CASE("labels that training lacks are listed with their rows") {
  const Directory directory;
  directory.write("a.csv", "text,label\na,cat\nb,dog\n");
  directory.write("b.csv", "text,label\na,cat\nb,dgo\nc,dgo\nd,emu\n");
  const Fault fault = fault_of([&] { open("data: {train: {path: DIR/a.csv}, test: {path: DIR/b.csv}}\n", directory); });
  CHECK(fault.code == 3);
  CHECK(fault.says("b.csv: column 'label'"));
  CHECK(fault.says("'dgo' in 2 rows (2, 3); did you mean 'dog'"));
  CHECK(fault.says("'emu' in 1 row (4)"));
}

TEST_CASE("Latin-1 is read when it is declared") {
  const Directory directory;
  directory.write("a.csv", "text,label\n\xe9t\xe9,f\n");
  directory.write("a.jsonl", "{\"text\":\"\xe9t\xe9\",\"label\":\"f\"}\n");
  for (const char* name : {"a.csv", "a.jsonl"}) {
    const auto d = open(std::string("data: {encoding: latin-1, path: DIR/") + name + "}\ntokenizer: {type: character}\n", directory);
    CHECK(data::Tokenizer::from_json(d->description().tokenizer_json).decode(sample(*d, Part::train, 0).tokens) == "été");
  }
}
