// SPDX-License-Identifier: Apache-2.0
#include "datasets/listops.h"

#include <algorithm>
#include <array>
#include <set>
#include <sstream>

#include "tests/datasets/files.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::datasets;
using namespace tapeformer::testing;

namespace {

// What the tree says, read from its text with a stack; -1 when the text is no tree.
int evaluate(const std::string& text) {
  std::vector<std::pair<std::string, std::vector<int>>> open{{"", {}}};
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    if (word[0] == '[') {
      open.push_back({word.substr(1), {}});
    } else if (word == "]") {
      if (open.size() < 2 || open.back().second.empty()) return -1;
      auto [name, v] = open.back();
      open.pop_back();
      std::sort(v.begin(), v.end());
      int value = 0;
      if (name == "MIN") value = v[0];
      else if (name == "MAX") value = v[v.size() - 1];
      else if (name == "MED") value = static_cast<int>(v.size() % 2 ? v[v.size() / 2] : (v[v.size() / 2] + v[v.size() / 2 - 1]) / 2.0);
      else if (name == "SM") {
        for (int x : v) value += x;
        value %= 10;
      } else {
        return -1;
      }
      open.back().second.push_back(value);
    } else {
      if (word.size() != 1 || word[0] < '0' || word[0] > '9') return -1;
      open.back().second.push_back(word[0] - '0');
    }
  }
  return open.size() == 1 && open[0].second.size() == 1 ? open[0].second[0] : -1;
}

int tokens(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), ' ')) + 1; }

int depth(const std::string& text) {
  int now = 0, most = 0;
  for (const char c : text) {
    now += c == '[';
    most = std::max(most, now);
    now -= c == ']';
  }
  return most;
}

ListopsSettings quick() {
  ListopsSettings s;
  s.digit_probability = {0, 0.7, 1};
  s.max_arguments = 5;
  s.min_length = 0;
  s.max_length = 100;
  s.train = 4000;
  s.valid = s.test = 500;
  return s;
}

}  // namespace

TEST_CASE("the evaluator of this test knows the operators") {
  CHECK(evaluate("[MAX 2 9 [MIN 4 7 ] 0 ]") == 9);
  CHECK(evaluate("[MED 1 2 3 4 ]") == 2);
  CHECK(evaluate("[SM 9 9 [MED 8 9 ] ]") == 6);
  CHECK(evaluate("[SM 9 9") == -1);
}

TEST_CASE("small trees: values, grammar, distinct over all parts") {
  ListopsSettings settings = quick();
  settings.train = 54000;
  settings.valid = settings.test = 3000;
  const auto samples = generate_listops(settings);
  REQUIRE(samples.size() == 60000);
  std::set<std::string> distinct;
  std::array<int, 10> classes{};
  double length = 0;
  int longest = 0, wrong = 0, without_operator = 0, deepest = 0;
  for (const ListopsSample& s : samples) {
    wrong += evaluate(s.source) != s.target;
    without_operator += s.source[0] != '[';
    deepest = std::max(deepest, depth(s.source));
    distinct.insert(s.source);
    ++classes[static_cast<size_t>(s.target)];
    length += tokens(s.source);
    longest = std::max(longest, tokens(s.source));
  }
  CHECK(wrong == 0);
  CHECK(without_operator == 0);
  CHECK(deepest == 2);
  CHECK(distinct.size() == samples.size());
  CHECK(*std::min_element(classes.begin(), classes.end()) > 0.08 * 60000);
  CHECK(*std::max_element(classes.begin(), classes.end()) < 0.12 * 60000);
  CHECK(length / 60000 > 11.25);
  CHECK(length / 60000 < 11.5);
  CHECK(longest <= 37);
}

TEST_CASE("long trees keep the published bounds") {
  ListopsSettings s;
  s.train = 150;
  s.valid = s.test = 25;
  double length = 0;
  int deepest = 0;
  for (const ListopsSample& sample : generate_listops(s)) {
    REQUIRE(evaluate(sample.source) == sample.target);
    REQUIRE(tokens(sample.source) > 500);
    REQUIRE(tokens(sample.source) < 2000);
    length += tokens(sample.source);
    deepest = std::max(deepest, depth(sample.source));
  }
  CHECK(deepest == 9);  // operators on levels 1 to 9
  CHECK(length / 200 > 900);
  CHECK(length / 200 < 1180);
}

TEST_CASE("length bounds are strict and argument counts are kept") {
  ListopsSettings s = quick();
  s.operators = {"SM"};
  s.min_arguments = s.max_arguments = 3;
  s.digit_probability = {0, 1};
  s.min_length = 4;
  s.max_length = 6;
  s.train = 900;
  s.valid = 50;
  s.test = 50;  // all 1000 trees there are
  const auto samples = generate_listops(s);
  CHECK(samples.size() == 1000);
  for (const ListopsSample& sample : samples) REQUIRE(tokens(sample.source) == 5);
  s.test = 51;
  const Fault fault = fault_of([&] { generate_listops(s); });
  CHECK(fault.code == 2);
  CHECK(fault.says("1000 of 1001"));
  s.max_length = 5;
  CHECK(fault_of([&] { generate_listops(s); }).says("0 of 1001"));
}

TEST_CASE("a seed fixes the trees") {
  ListopsSettings s = quick();
  s.train = 3;
  s.valid = s.test = 1;
  const auto a = generate_listops(s);
  // Recorded once: the same bytes on every machine and in every version.
  CHECK(a[0].source == "[MED 1 [MIN 1 6 ] ]");
  CHECK(a[4].source == "[MAX 7 5 3 ]");
  s.seed = 1;
  CHECK(generate_listops(s)[0].source != a[0].source);
}

TEST_CASE("files are complete or not there") {
  const Directory directory;
  ListopsSettings s = quick();
  s.train = 20;
  s.valid = 5;
  s.test = 7;
  make_listops(s, directory.path() / "new" / "listops");
  const std::string train = slurp(directory / "new/listops/train.tsv");
  CHECK(train.starts_with("Source\tTarget\n["));
  CHECK(std::count(train.begin(), train.end(), '\n') == 21);
  const std::string test = slurp(directory / "new/listops/test.tsv");
  CHECK(std::count(test.begin(), test.end(), '\n') == 8);
  const auto all = generate_listops(s);
  CHECK(train.find(all[0].source + "\t" + std::to_string(all[0].target) + "\n") != std::string::npos);
  CHECK(test.find(all[31].source + "\t" + std::to_string(all[31].target) + "\n") != std::string::npos);

  s.operators = {"SM"};
  s.max_arguments = 2;
  s.digit_probability = {0, 1};
  s.train = 1000;  // there are 100 trees
  CHECK(fault_of([&] { make_listops(s, directory.path() / "new" / "listops"); }).code == 2);
  CHECK(slurp(directory / "new/listops/train.tsv") == train);
  CHECK(std::distance(std::filesystem::directory_iterator(directory.path() / "new/listops"), {}) == 3);
  directory.write("file", "");
  CHECK(fault_of([&] { make_listops(quick(), directory.path() / "file"); }).code == 6);
}

TEST_CASE("listops settings are read and checked") {
  const auto read = [](const std::string& yaml) {
    config::Document document = config::Document::from_text(yaml, "test.yaml", {});
    const ListopsSettings s = ListopsSettings::read(document.root().section("listops", "trees"));
    document.finish();
    return s;
  };
  const ListopsSettings s =
      read("listops: {seed: 3, digit_probability: [0, 0.7, 1], max_arguments: 5, train: 54k, operators: [MIN, SM]}\n");
  CHECK(s.seed == 3);
  CHECK(s.digit_probability == std::vector<double>{0, 0.7, 1});
  CHECK(s.train == 54000);
  CHECK(s.operators == std::vector<std::string>{"MIN", "SM"});
  CHECK(s.max_depth == 10);
  for (const char* bad : {"listops: {min_arguments: 4, max_arguments: 3}\n", "listops: {min_length: 10, max_length: 11}\n",
                          "listops: {operators: [MEAN]}\n", "listops: {digit_probability: [0.5], operator_probability: 0.5}\n",
                          "listops: {digit_probability: [1.5]}\n", "listops: {max_dept: 4}\n"})
    CHECK(fault_of([&] { read(bad); }).code == 2);
}
