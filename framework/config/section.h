// SPDX-License-Identifier: Apache-2.0
// How a component reads its settings: one call per key states its name, type, range and help. The same calls check a config, fill the
// settings, print the resolved config and print the reference.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tapeformer::config {

// What a number may be. The bounds are shown in errors and in the reference.
struct Range {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;
};
constexpr Range any_number() { return {}; }
constexpr Range at_least(double low) { return {low, std::numeric_limits<double>::infinity(), false, false}; }
constexpr Range above(double low) { return {low, std::numeric_limits<double>::infinity(), true, false}; }
constexpr Range between(double low, double high) { return {low, high, false, false}; }
constexpr Range from_below(double low, double high) { return {low, high, false, true}; }  // low <= x < high

struct Entry;         // of the tree
struct SectionState;  // of the document

// One map of the config. Cheap to copy; valid while its Document lives.
class Section {
 public:
  explicit Section(std::shared_ptr<SectionState> state) : state_(std::move(state)) {}

  // Each reads `key` into `value` if it is given and valid, and otherwise leaves the default that stands there; faults are collected.
  void field(std::string_view key, bool& value, std::string_view help);
  void field(std::string_view key, int& value, Range, std::string_view help);
  void field(std::string_view key, int64_t& value, Range, std::string_view help);
  void field(std::string_view key, uint64_t& value, std::string_view help);  // a seed
  void field(std::string_view key, double& value, Range, std::string_view help);
  void field(std::string_view key, std::string& value, std::string_view help);
  void field(std::string_view key, std::vector<std::string>& value, std::string_view help);  // a list, or one word
  void field(std::string_view key, std::vector<double>& value, Range each, std::string_view help);
  void field(std::string_view key, std::vector<int>& value, Range each, std::string_view help);  // a list, or one number
  // A number of things that may be written 50k or 2.5M (k = 1,000, M = 1,000,000).
  void count(std::string_view key, int64_t& value, Range, std::string_view help);
  // A number, or a word that stands for one (`auto`); printed as the word again.
  void number_or_word(std::string_view key, int& value, std::string_view word, int stands_for, Range, std::string_view help);
  void number_or_word(std::string_view key, int64_t& value, std::string_view word, int64_t stands_for, Range, std::string_view help);
  void number_or_word(std::string_view key, double& value, std::string_view word, double stands_for, Range, std::string_view help);
  // One of the words, turned into an enum at the border.
  template <class E>
  void choice(std::string_view key, E& value, std::initializer_list<std::pair<std::string_view, E>> words, std::string_view help) {
    std::vector<std::string_view> names;
    size_t at = 0, i = 0;
    for (const auto& [word, e] : words) {
      names.push_back(word);
      if (e == value) at = i;
      ++i;
    }
    at = choose(key, at, names, help);
    value = (words.begin() + at)->second;
  }
  // The same for a list with one word for each of several things, or one word for all: the indices of the words.
  std::vector<size_t> choices(std::string_view key, std::vector<size_t> defaults, const std::vector<std::string_view>& words,
                              std::string_view help);
  size_t choose(std::string_view key, size_t by_default, const std::vector<std::string_view>& words, std::string_view help);
  // A map below `key`; empty when not given.
  Section section(std::string_view key, std::string_view help);
  // A list of maps, each a section of its own named by its place: "model.attention.groups.0". Empty when not given.
  std::vector<Section> sections(std::string_view key, std::string_view help);
  // A map with keys of the user's own (label: weight).
  std::vector<std::pair<std::string, double>> numbers_by_name(std::string_view key, Range, std::string_view help);

  bool given() const;  // as a map
  bool given(std::string_view key) const;
  // Names the fault at the key's own place (file:line:column with a caret), or at the section where it is not given. For combinations call
  // it once and name both dotted keys in the message.
  void fault(std::string_view key, std::string message, std::string hint = {});
  // The fault of something that this build or machine does not have; where it is the only kind, the exit code is that of it.
  void unavailable(std::string_view key, std::string message, std::string hint);
  // The fault of a key that the value of another, named by its dotted path and already read, leaves without meaning; a warning where the
  // two stand in different files or one in an override, as a base may bring more than is needed. What has the default's value is none. The
  // resolved config has the default in its place, so that it reads back.
  void unused(std::string_view key, std::string_view other);
  void warn(std::string_view key, std::string message);
  // "model.attention" for messages; empty at the top.
  std::string path() const;
  // "model.attention.heads"
  std::string path(std::string_view key) const;

 private:
  std::shared_ptr<SectionState> below(std::string_view key, std::string_view help, const Entry* entry);
  std::shared_ptr<SectionState> state_;
};

}  // namespace tapeformer::config
