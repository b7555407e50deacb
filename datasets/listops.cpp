// SPDX-License-Identifier: Apache-2.0
#include "datasets/listops.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "framework/core/error.h"
#include "framework/core/log.h"
#include "framework/core/random.h"
#include "framework/io/durable_file.h"

namespace tapeformer::datasets {
namespace {

constexpr std::array<std::string_view, 4> operator_names{"MIN", "MAX", "MED", "SM"};
enum class Operator : uint8_t { min, max, med, sm };

// A tree as one byte for each token: 0 .. 9 digits, then the operators, then the closing bracket.
constexpr uint8_t first_operator = 10, closing = 14;

int apply(Operator op, std::vector<int>& arguments) {
  std::sort(arguments.begin(), arguments.end());
  const size_t n = arguments.size();
  switch (op) {
    case Operator::min:
      return arguments.front();
    case Operator::max:
      return arguments.back();
    case Operator::med:
      return n % 2 ? arguments[n / 2] : (arguments[n / 2 - 1] + arguments[n / 2]) / 2;
    case Operator::sm: {
      int sum = 0;
      for (const int a : arguments) sum += a;
      return sum % 10;
    }
  }
  return 0;
}

// Draws the tree of one attempt; the words come from the place (attempt, position), so no tree depends on another.
class TreeDraw {
 public:
  TreeDraw(const ListopsSettings& settings, const std::vector<Operator>& operators)
      : settings_(settings),
        operators_(operators),
        key_(random_key(settings.seed, "data", "listops")),
        arguments_(static_cast<size_t>(settings.max_depth)) {}

  // The value of the root; nothing when the tree is too long.
  std::optional<int> draw(uint64_t attempt, std::vector<uint8_t>& tokens) {
    attempt_ = attempt;
    position_ = 0;
    tokens_ = &tokens;
    tokens.clear();
    too_long_ = false;
    const int value = node(1);
    return too_long_ ? std::nullopt : std::optional<int>(value);
  }

 private:
  uint32_t word() {
    if (position_ % 4 == 0)
      block_ = philox({position_ / 4, 0, static_cast<uint32_t>(attempt_), static_cast<uint32_t>(attempt_ >> 32)}, key_);
    return block_[position_++ % 4];
  }
  // Uniform in 0 .. n - 1.
  int64_t below(int64_t n) { return static_cast<int64_t>(uint64_t{word()} * static_cast<uint64_t>(n) >> 32); }

  double digit_probability(int64_t level) const {
    if (level >= settings_.max_depth) return 1;
    const std::vector<double>& by_level = settings_.digit_probability;
    if (by_level.empty()) return 1 - settings_.operator_probability;
    return by_level[std::min(static_cast<size_t>(level), by_level.size()) - 1];
  }

  int node(int64_t level) {
    const double digit = digit_probability(level);
    if (digit >= 1 || (digit > 0 && Draw::uniform_of(word()) < digit)) {
      const int value = static_cast<int>(below(10));
      tokens_->push_back(static_cast<uint8_t>(value));
      return value;
    }
    const Operator op = operators_[static_cast<size_t>(below(static_cast<int64_t>(operators_.size())))];
    tokens_->push_back(static_cast<uint8_t>(first_operator + static_cast<int>(op)));
    const int64_t count = settings_.min_arguments + below(settings_.max_arguments - settings_.min_arguments + 1);
    std::vector<int>& values = arguments_[static_cast<size_t>(level - 1)];
    values.clear();
    for (int64_t i = 0; i < count && !too_long_; ++i) {
      values.push_back(node(level + 1));
      too_long_ = too_long_ || static_cast<int64_t>(tokens_->size()) + 1 >= settings_.max_length;
    }
    tokens_->push_back(closing);
    return apply(op, values);
  }

  const ListopsSettings& settings_;
  const std::vector<Operator>& operators_;
  uint64_t key_, attempt_ = 0;
  uint32_t position_ = 0;
  PhiloxWords block_{};
  std::vector<std::vector<int>> arguments_;  // by level
  std::vector<uint8_t>* tokens_ = nullptr;
  bool too_long_ = false;
};

std::string text_of(const std::vector<uint8_t>& tokens) {
  std::string text;
  for (const uint8_t t : tokens) {
    if (!text.empty()) text += ' ';
    if (t < first_operator) text += static_cast<char>('0' + t);
    else if (t == closing) text += ']';
    else (text += '[') += operator_names[t - first_operator];
  }
  return text;
}

std::vector<Operator> operators_of(const ListopsSettings& settings) {
  std::vector<Operator> operators;
  for (const std::string& name : settings.operators) {
    const auto found = std::find(operator_names.begin(), operator_names.end(), name);
    if (found == operator_names.end())
      fail(ExitCode::usage, "listops has no operator '{}'; it knows MIN, MAX, MED and SM", printable(name));
    operators.push_back(static_cast<Operator>(found - operator_names.begin()));
  }
  return operators;
}

void check(const ListopsSettings& s) {
  const auto probability = [](double p) { return p >= 0 && p <= 1; };
  if (s.operators.empty() || s.min_arguments < 1 || s.max_arguments < s.min_arguments || s.max_depth < 1 ||
      !probability(s.operator_probability) || !std::all_of(s.digit_probability.begin(), s.digit_probability.end(), probability) ||
      s.max_length < s.min_length || s.train < 0 || s.valid < 0 || s.test < 0)
    fail(ExitCode::usage, "listops settings out of range; see their bounds in the config reference");
}

// Hands each new tree to `take`; distinct by a 64-bit hash, whose rare collision only drops a tree.
void each_tree(const ListopsSettings& settings, const std::function<void(const std::vector<uint8_t>& tokens, int value)>& take) {
  check(settings);
  const std::vector<Operator> operators = operators_of(settings);
  TreeDraw draws(settings, operators);
  std::unordered_set<uint64_t> seen;
  const int64_t wanted = settings.train + settings.valid + settings.test;
  constexpr uint64_t patience = 1'000'000;  // attempts in a row without a new tree
  std::vector<uint8_t> tokens;
  uint64_t last = 0;
  for (uint64_t attempt = 0; static_cast<int64_t>(seen.size()) < wanted; ++attempt) {
    if (attempt - last > patience)
      fail(ExitCode::usage, "listops: no new tree in {} draws after {} of {}; allow more arguments, levels or lengths, or ask for fewer",
           patience, seen.size(), wanted);
    const std::optional<int> value = draws.draw(attempt, tokens);
    const auto length = static_cast<int64_t>(tokens.size());
    if (!value || length <= settings.min_length || length >= settings.max_length) continue;
    if (!seen.insert(XXH3_64bits(tokens.data(), tokens.size())).second) continue;
    last = attempt;
    take(tokens, *value);
  }
}

// Writes one part in large pieces.
class PartFile {
 public:
  explicit PartFile(const std::filesystem::path& path) : file_(path) {}
  void line(const std::vector<uint8_t>& tokens, int value) {
    buffer_ += text_of(tokens);
    buffer_ += '\t';
    buffer_ += static_cast<char>('0' + value);
    buffer_ += '\n';
    if (buffer_.size() >= size_t{1} << 20) flush();
  }
  void flush() {
    file_.write(buffer_);
    buffer_.clear();
  }
  void publish() { file_.publish(); }

 private:
  io::ReplacementFile file_;
  std::string buffer_ = "Source\tTarget\n";
};

}  // namespace

ListopsSettings ListopsSettings::read(config::Section s) {
  ListopsSettings l;
  s.field("seed", l.seed, "another seed makes other trees");
  s.field("operators", l.operators, "of MIN, MAX, MED (the median, truncated) and SM (the sum modulo 10), each as likely");
  s.field("min_arguments", l.min_arguments, config::between(1, 100), "the fewest arguments of an operator");
  s.field("max_arguments", l.max_arguments, config::between(1, 100), "the most arguments of an operator");
  s.field("max_depth", l.max_depth, config::between(1, 100), "the level, the root's being 1, on which all nodes are digits");
  s.field("operator_probability", l.operator_probability, config::between(0, 1), "how often a node above that level is an operator");
  s.field("digit_probability", l.digit_probability, config::between(0, 1),
          "how often a node is a digit, by level from the root, the last number for all below; instead of operator_probability");
  s.field("min_length", l.min_length, config::at_least(0), "a tree has more tokens than this");
  s.field("max_length", l.max_length, config::between(2, 1e6), "a tree has fewer tokens than this");
  s.count("train", l.train, config::between(0, 1e8), "trees of the training part");
  s.count("valid", l.valid, config::between(0, 1e8), "trees of the validation part");
  s.count("test", l.test, config::between(0, 1e8), "trees of the test part");
  if (l.max_arguments < l.min_arguments)
    s.fault("max_arguments", fmt::format("'{}' is below '{}'", s.path("max_arguments"), s.path("min_arguments")), "exchange them");
  if (l.max_length <= l.min_length + 1)
    s.fault("max_length", fmt::format("no length lies between '{}' and '{}'", s.path("min_length"), s.path("max_length")),
            "both bounds are exclusive");
  if (s.given("digit_probability") && s.given("operator_probability"))
    s.fault("digit_probability",
            fmt::format("'{}' and '{}' say the same thing", s.path("digit_probability"), s.path("operator_probability")),
            "keep one of them");
  if (l.operators.empty())
    s.fault("operators", fmt::format("'{}' is empty", s.path("operators")), "name at least one of MIN, MAX, MED, SM");
  for (const std::string& name : l.operators)
    if (std::find(operator_names.begin(), operator_names.end(), name) == operator_names.end())
      s.fault("operators", fmt::format("'{}' has the unknown operator '{}'", s.path("operators"), name), "known here: MIN, MAX, MED, SM");
  return l;
}

std::vector<ListopsSample> generate_listops(const ListopsSettings& settings) {
  std::vector<ListopsSample> samples;
  each_tree(settings, [&](const std::vector<uint8_t>& tokens, int value) { samples.push_back({text_of(tokens), value}); });
  return samples;
}

void make_listops(const ListopsSettings& settings, const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) fail(ExitCode::resource, "cannot make the directory {}: {}", printable(directory.string()), error.message());
  PartFile train(directory / "train.tsv"), valid(directory / "valid.tsv"), test(directory / "test.tsv");
  int64_t count = 0;
  each_tree(settings, [&](const std::vector<uint8_t>& tokens, int value) {
    PartFile& part = count < settings.train ? train : count < settings.train + settings.valid ? valid : test;
    part.line(tokens, value);
    ++count;
  });
  for (PartFile* part : {&train, &valid, &test}) part->flush();
  for (PartFile* part : {&train, &valid, &test}) part->publish();
}

}  // namespace tapeformer::datasets
