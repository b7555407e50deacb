// SPDX-License-Identifier: Apache-2.0
// The typed reading of one key at a time. Every reading leaves a Field behind, whether the key is given or not: that list is the schema.
#include "framework/config/section.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <type_traits>

#include "framework/config/print.h"
#include "framework/config/scalar.h"
#include "framework/config/state.h"
#include "framework/core/error.h"
#include "framework/core/suggest.h"

namespace tapeformer::config {
namespace {

// " > 0", " between 0 and 1", " >= 0 and < 1"; empty without bounds.
std::string words_of(const Range& range) {
  const auto text = [](double bound) {
    return bound == std::floor(bound) && std::abs(bound) < 1e15 ? yaml_text(static_cast<int64_t>(bound)) : yaml_text(bound);
  };
  const bool low = std::isfinite(range.low), high = std::isfinite(range.high);
  if (low && high && !range.low_open && !range.high_open) return fmt::format(" between {} and {}", text(range.low), text(range.high));
  const std::string above = low ? fmt::format(" {} {}", range.low_open ? ">" : ">=", text(range.low)) : std::string();
  const std::string below = high ? fmt::format(" {} {}", range.high_open ? "<" : "<=", text(range.high)) : std::string();
  return low && high ? above + " and" + below : above + below;
}

// long double holds every 64-bit integer where it has 64 bits of mantissa, so a bound is never crossed by rounding.
template <class T>
bool inside(const Range& range, T value) {
  const auto v = static_cast<long double>(value);
  return (range.low_open ? v > range.low : v >= range.low) && (range.high_open ? v < range.high : v <= range.high);
}

// The bounds of the type itself, shown when they are what was crossed.
template <class T>
std::string limits_of(const Range& range) {
  const T low = std::isfinite(range.low) ? static_cast<T>(std::ceil(range.low)) : std::numeric_limits<T>::lowest();
  const T high = std::isfinite(range.high) ? static_cast<T>(std::floor(range.high)) : std::numeric_limits<T>::max();
  return fmt::format(" between {} and {}", low, high);
}

class Reader {
 public:
  Reader(SectionState& section, std::string_view key, std::string type, std::string_view help, std::string default_text)
      : section_(section), key_(key), type_(std::move(type)), entry_(section.entry(key)) {
    for (const Member& m : section.members) {
      if ((m.section ? m.section->key : m.field.key) != key) continue;
      require(!m.section && m.field.type == type_, "config: '{}' is asked for as {} and as {}", section.path_of(key), type_,
              m.section ? "a section" : m.field.type);
      known_ = true;
    }
    if (!known_) section.members.push_back({{key_, type_, std::string(help), default_text, default_text, {}}, nullptr});
  }

  // The given value, or null.
  const Node* given() const { return entry_ == nullptr ? nullptr : &entry_->value; }
  std::string path() const { return section_.path_of(key_); }
  const std::string& type() const { return type_; }

  void accept(std::string text) {
    for (Member& m : section_.members)
      if (!m.section && m.field.key == key_) m.field.text = std::move(text), m.field.place = entry_->value.place;
  }
  void refuse(const Node& node, std::string_view what, const std::string& type, std::string hint) {
    for (Member& m : section_.members)
      if (!m.section && m.field.key == key_) m.field.refused = true;
    if (hint.empty() && node.is_empty()) hint = "give it a value, or remove the line for the default";
    section_.document->report.error(node.place, fmt::format("'{}' must be {}, found {}", what, type, found(node)), std::move(hint));
  }
  void refuse(std::string hint = {}) { refuse(entry_->value, path(), type_, std::move(hint)); }

 private:
  SectionState& section_;
  std::string key_, type_;
  const Entry* entry_;
  bool known_ = false;
};

// Reads one number from a node, or says in the report why not. T is what is stored, V what the text reader gives.
template <class T, class V>
bool read_node(Reader& reader, const Node& node, const std::string& what, const std::string& type, const Range& range, T& value,
               Outcome (*read)(std::string_view, V&)) {
  V v{};
  const bool scalar = node.kind == Node::Kind::scalar;
  const Outcome outcome = scalar ? read(node.text, v) : Outcome{Outcome::Kind::malformed};
  if (scalar && !node.plain) {
    reader.refuse(node, what, type, outcome ? "drop the quotes: in quotes it is text" : std::string());
    return false;
  }
  if (outcome.kind == Outcome::Kind::malformed) {
    reader.refuse(node, what, type, outcome.hint);
    return false;
  }
  bool fits = static_cast<bool>(outcome);
  if constexpr (std::is_integral_v<T>) {
    fits = fits && v >= V{std::numeric_limits<T>::lowest()} && v <= V{std::numeric_limits<T>::max()};
    if (!fits) {
      reader.refuse(node, what, type, "the range is" + limits_of<T>(range));
      return false;
    }
  }
  if (!fits || !inside(range, v)) {
    reader.refuse(node, what, type, outcome.hint);
    return false;
  }
  value = static_cast<T>(v);
  return true;
}

// A list of numbers; with `or_one` a number alone is a list of one, and printed as it.
template <class T, class V>
void read_list(SectionState& section, std::string_view key, std::vector<T>& values, const Range& each, const char* kind, bool or_one,
               std::string_view help, Outcome (*read)(std::string_view, V&)) {
  const std::string number = kind + words_of(each);
  const auto text = [or_one](const std::vector<T>& list) { return or_one && list.size() == 1 ? yaml_text(list[0]) : yaml_list(list); };
  Reader reader(section, key, or_one ? number + ", or a list of such" : "a list, each " + number, help, text(values));
  const Node* node = reader.given();
  if (node == nullptr) return;
  const bool list = node->kind == Node::Kind::list;
  if (!list && !or_one) return reader.refuse("write [a, b]");
  std::vector<T> numbers(list ? node->items.size() : 1);
  bool good = list || read_node<T, V>(reader, *node, reader.path(), reader.type(), each, numbers[0], read);
  for (size_t i = 0; list && i < numbers.size(); ++i)
    good &= read_node<T, V>(reader, node->items[i], fmt::format("{}[{}]", reader.path(), i), number, each, numbers[i], read);
  if (!good) return;
  values = std::move(numbers);
  reader.accept(text(values));
}

template <class T, class V>
void read_field(SectionState& section, std::string_view key, T& value, const Range& range, const char* kind, std::string_view help,
                Outcome (*read)(std::string_view, V&)) {
  Reader reader(section, key, kind + words_of(range), help, yaml_text(value));
  if (reader.given() == nullptr) return;
  if (read_node(reader, *reader.given(), reader.path(), reader.type(), range, value, read)) reader.accept(yaml_text(value));
}

template <class T>
void read_number_or_word(SectionState& section, std::string_view key, T& value, std::string_view word, T stands_for, const Range& range,
                         const char* kind, std::string_view help) {
  const auto text = [&](T v) { return v == stands_for ? yaml_text(word) : yaml_text(v); };
  Reader reader(section, key, fmt::format("{} or {}{}", word, kind, words_of(range)), help, text(value));
  const Node* node = reader.given();
  if (node == nullptr) return;
  if (node->kind == Node::Kind::scalar && node->text == word) value = stands_for;
  else if (!read_node<T, T>(reader, *node, reader.path(), reader.type(), range, value, read_number)) return;
  reader.accept(text(value));
}

// The words of a list, or the one word.
std::optional<std::vector<const Node*>> words_in(Reader& reader) {
  std::vector<const Node*> words;
  const Node& node = *reader.given();
  if (node.kind == Node::Kind::list)
    for (const Node& item : node.items) words.push_back(&item);
  else words.push_back(&node);
  for (const Node* word : words)
    if (word->kind != Node::Kind::scalar || word->is_empty()) {
      reader.refuse(*word, reader.path(), reader.type(), {});
      return {};
    }
  return words;
}

std::vector<std::string> strings(const std::vector<std::string_view>& words) { return {words.begin(), words.end()}; }

// The place of `word` among the words; says in the report when it is none of them.
std::optional<size_t> index_of(Reader& reader, const Node& node, const std::vector<std::string_view>& words) {
  if (node.kind == Node::Kind::scalar)
    for (size_t i = 0; i < words.size(); ++i)
      if (node.text == words[i]) return i;
  const std::string near = node.kind == Node::Kind::scalar ? nearest(node.text, strings(words)) : std::string();
  reader.refuse(node, reader.path(), reader.type(), near.empty() ? near : fmt::format("did you mean '{}'?", near));
  return {};
}

// Where a message about `key` points: its key, else its section, else the file.
Place place_of(const SectionState& section, std::string_view key) {
  if (const Entry* entry = section.entry(key)) return entry->key_place;
  for (const SectionState* s = &section; s != nullptr; s = s->parent)
    if (s->place.source) return s->place;
  return {section.document->source};
}

}  // namespace

void Section::field(std::string_view key, bool& value, std::string_view help) {
  Reader reader(*state_, key, "true or false", help, yaml_text(value));
  const Node* node = reader.given();
  if (node == nullptr) return;
  bool v = false;
  const Outcome outcome = node->kind == Node::Kind::scalar ? read_bool(node->text, v) : Outcome{Outcome::Kind::malformed};
  if (outcome && node->plain) {
    value = v;
    reader.accept(yaml_text(value));
  } else {
    reader.refuse(outcome ? "drop the quotes: in quotes it is text" : outcome.hint);
  }
}

void Section::field(std::string_view key, int& value, Range range, std::string_view help) {
  read_field<int, int64_t>(*state_, key, value, range, "an integer", help, read_number);
}
void Section::field(std::string_view key, int64_t& value, Range range, std::string_view help) {
  read_field<int64_t, int64_t>(*state_, key, value, range, "an integer", help, read_number);
}
void Section::field(std::string_view key, uint64_t& value, std::string_view help) {
  read_field<uint64_t, uint64_t>(*state_, key, value, any_number(), "an integer >= 0", help, read_number);
}
void Section::field(std::string_view key, double& value, Range range, std::string_view help) {
  read_field<double, double>(*state_, key, value, range, "a number", help, read_number);
}
void Section::count(std::string_view key, int64_t& value, Range range, std::string_view help) {
  read_field<int64_t, int64_t>(*state_, key, value, range, "a count (such as 500, 50k or 2.5M)", help, read_count);
}

void Section::number_or_word(std::string_view key, int64_t& value, std::string_view word, int64_t stands_for, Range range,
                             std::string_view help) {
  read_number_or_word(*state_, key, value, word, stands_for, range, "an integer", help);
}
void Section::number_or_word(std::string_view key, double& value, std::string_view word, double stands_for, Range range,
                             std::string_view help) {
  read_number_or_word(*state_, key, value, word, stands_for, range, "a number", help);
}
void Section::number_or_word(std::string_view key, int& value, std::string_view word, int stands_for, Range range, std::string_view help) {
  int64_t wide = value;
  range.high = std::min<double>(range.high, std::numeric_limits<int>::max());
  range.low = std::max<double>(range.low, std::numeric_limits<int>::lowest());
  number_or_word(key, wide, word, stands_for, range, help);
  value = static_cast<int>(wide);
}

void Section::field(std::string_view key, std::string& value, std::string_view help) {
  Reader reader(*state_, key, "text", help, yaml_text(value));
  const Node* node = reader.given();
  if (node == nullptr) return;
  if (node->kind != Node::Kind::scalar || node->is_empty())
    return reader.refuse(node->is_empty() ? "write \"\" for an empty text, or remove the line for the default" : "");
  value = node->text;
  reader.accept(yaml_text(value));
}

void Section::field(std::string_view key, std::vector<std::string>& value, std::string_view help) {
  Reader reader(*state_, key, "a list of words, or one word", help, yaml_list(value));
  if (reader.given() == nullptr) return;
  const auto words = words_in(reader);
  if (!words) return;
  value.clear();
  for (const Node* word : *words) value.push_back(word->text);
  reader.accept(yaml_list(value));
}

void Section::field(std::string_view key, std::vector<double>& value, Range each, std::string_view help) {
  read_list<double, double>(*state_, key, value, each, "a number", false, help, read_number);
}
void Section::field(std::string_view key, std::vector<int>& value, Range each, std::string_view help) {
  read_list<int, int64_t>(*state_, key, value, each, "an integer", true, help, read_number);
}

size_t Section::choose(std::string_view key, size_t by_default, const std::vector<std::string_view>& words, std::string_view help) {
  Reader reader(*state_, key, "one of " + joined(strings(words), words.size()), help, yaml_text(words.at(by_default)));
  if (reader.given() == nullptr) return by_default;
  const auto at = index_of(reader, *reader.given(), words);
  if (!at) return by_default;
  reader.accept(yaml_text(words[*at]));
  return *at;
}

std::vector<size_t> Section::choices(std::string_view key, std::vector<size_t> defaults, const std::vector<std::string_view>& words,
                                     std::string_view help) {
  const auto text = [&](const std::vector<size_t>& chosen) {
    std::vector<std::string_view> names;
    for (const size_t i : chosen) names.push_back(words.at(i));
    return names.size() == 1 ? yaml_text(names[0]) : yaml_list(names);
  };
  Reader reader(*state_, key, "a word or a list of words out of " + joined(strings(words), words.size()), help, text(defaults));
  if (reader.given() == nullptr) return defaults;
  const auto given = words_in(reader);
  if (!given) return defaults;
  if (given->empty()) {
    reader.refuse("name at least one");
    return defaults;
  }
  std::vector<size_t> chosen;
  for (const Node* word : *given)
    if (const auto at = index_of(reader, *word, words)) chosen.push_back(*at);
  if (chosen.size() != given->size()) return defaults;
  reader.accept(text(chosen));
  return chosen;
}

std::vector<std::pair<std::string, double>> Section::numbers_by_name(std::string_view key, Range range, std::string_view help) {
  const std::string number = "a number" + words_of(range);
  Reader reader(*state_, key, "a map from names, each to " + number, help, "{}");
  const Node* node = reader.given();
  if (node == nullptr) return {};
  if (node->kind != Node::Kind::map) {
    reader.refuse("write {name: 1.5, other: 2}");
    return {};
  }
  std::vector<std::pair<std::string, double>> numbers;
  std::string text;
  for (const Entry& e : node->entries) {
    double v = 0;
    if (!read_node<double, double>(reader, e.value, reader.path() + "." + shortened(e.key), number, range, v, read_number)) continue;
    numbers.emplace_back(e.key, v);
    text += (text.empty() ? "" : ", ") + yaml_text(e.key) + ": " + yaml_text(v);
  }
  if (numbers.size() != node->entries.size()) return {};
  reader.accept("{" + text + "}");
  return numbers;
}

std::shared_ptr<SectionState> Section::below(std::string_view key, std::string_view help, const Entry* entry) {
  auto below = std::make_shared<SectionState>();
  below->document = state_->document;
  below->parent = state_.get();
  below->key = key;
  below->path = path(key);
  below->help = help;
  if (entry != nullptr) below->place = entry->key_place;
  state_->members.push_back({{}, below});
  return below;
}

Section Section::section(std::string_view key, std::string_view help) {
  for (const Member& m : state_->members) {
    if (m.section && m.section->key == key) return Section(m.section);
    require(m.section || m.field.key != key, "config: '{}' is asked for as {} and as a section", path(key), m.field.type);
  }
  const Entry* entry = state_->entry(key);
  const auto made = below(key, help, entry);
  if (entry != nullptr) {
    if (entry->value.kind == Node::Kind::map) made->node = &entry->value;
    else if (!entry->value.is_empty())
      state_->document->report.error(entry->value.place,
                                     fmt::format("'{}' must be a section with keys of its own, found {}", made->path, found(entry->value)));
  }
  return Section(made);
}

std::vector<Section> Section::sections(std::string_view key, std::string_view help) {
  const Entry* entry = state_->entry(key);
  const Section list(below(key, help, entry));
  list.state_->is_list = true;
  if (entry == nullptr || entry->value.is_empty()) return {};
  const auto refuse = [&](const Node& node, const std::string& what, const char* wanted) {
    state_->document->report.error(node.place, fmt::format("'{}' must be {}, found {}", what, wanted, found(node)));
  };
  if (entry->value.kind != Node::Kind::list) {
    refuse(entry->value, list.path(), "a list of sections");
    return {};
  }
  std::vector<Section> items;
  for (const Node& item : entry->value.items) {
    const std::string place = fmt::format("{}", items.size());
    items.emplace_back(Section(list).below(place, help, nullptr));
    items.back().state_->place = item.place;
    if (item.kind == Node::Kind::map) items.back().state_->node = &item;
    else refuse(item, items.back().path(), "a section with keys of its own");
  }
  return items;
}

bool Section::given() const { return state_->node != nullptr; }
bool Section::given(std::string_view key) const {
  const Entry* entry = state_->entry(key);
  return entry != nullptr && !entry->value.is_empty();
}

void Section::fault(std::string_view key, std::string message, std::string hint) {
  state_->document->report.error(place_of(*state_, key), std::move(message), std::move(hint));
}
void Section::unavailable(std::string_view key, std::string message, std::string hint) {
  if (state_->document->unavailable_allowed) return;
  state_->document->report.error(place_of(*state_, key), std::move(message), std::move(hint), ExitCode::unavailable);
}
void Section::warn(std::string_view key, std::string message) {
  state_->document->report.add({Fault::Kind::warning, place_of(*state_, key), std::move(message)});
}

std::string Section::path() const { return state_->path; }
std::string Section::path(std::string_view key) const { return state_->path_of(key); }

}  // namespace tapeformer::config
