// SPDX-License-Identifier: Apache-2.0
// A made-up set of components with sections and keys of every type, and ways to read a text with it.
#pragma once
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "framework/config/document.h"
#include "framework/core/error.h"

namespace tapeformer::config::sample {

enum class Pooling { mean, max, first };

struct Settings {
  int dim = 64;
  double dropout = 0.1;
  bool tied = false;
  std::string note = "plain";
  Pooling pooling = Pooling::mean;
  std::vector<size_t> attention = {0};
  int heads = 2;
  double learning_rate = 1e-3;
  std::vector<double> betas = {0.9, 0.999};
  int64_t warmup = 1000;
  std::vector<int> halvings = {60};
  uint64_t seed = 1;
  int64_t rows = 5;
  int threads = 0;
  std::vector<std::string> classes;
  std::vector<std::pair<std::string, double>> weights;
  bool operator==(const Settings&) const = default;
};

inline Settings read(Section root) {
  Settings s;
  Section model = root.section("model", "The network.");
  model.field("dim", s.dim, at_least(1), "Width of a row.");
  model.field("dropout", s.dropout, from_below(0, 1), "Share of values set to 0.");
  model.field("tied", s.tied, "Whether two matrices are one.");
  model.field("note", s.note, "Free text.");
  model.choice("pooling", s.pooling, {{"mean", Pooling::mean}, {"max", Pooling::max}, {"first", Pooling::first}}, "How rows become one.");
  Section attention = model.section("attention", "Who looks at whom.");
  s.attention = attention.choices("type", s.attention, {"full", "local", "linear"}, "One for all layers, or one a layer.");
  attention.field("heads", s.heads, between(1, 256), "Parts that attend on their own.");
  Section optim = root.section("optim", "The optimiser.");
  optim.field("learning_rate", s.learning_rate, above(0), "Peak rate.");
  optim.field("betas", s.betas, from_below(0, 1), "Decays of the two moments.");
  optim.field("halvings", s.halvings, between(0, 99), "Epochs after which the rate is halved.");
  optim.count("warmup", s.warmup, at_least(0), "Steps until the peak.");
  Section train = root.section("train", "The run.");
  train.field("seed", s.seed, "Start of every draw.");
  train.field("rows", s.rows, any_number(), "Any whole number.");
  train.number_or_word("threads", s.threads, "auto", 0, at_least(1), "Workers.");
  train.field("classes", s.classes, "Labels.");
  s.weights = train.numbers_by_name("weights", above(0), "Weight of each label.");
  return s;
}

// The text of what `body` throws, and its code; empty when it throws nothing.
template <class Body>
std::string error_of(Body&& body, ExitCode expected = ExitCode::usage) {
  try {
    body();
  } catch (const Error& e) {
    return e.code() == expected ? e.what() : std::string("wrong exit code, ") + e.what();
  }
  return {};
}

inline Settings read_text(const std::string& text, const std::vector<std::string>& overrides = {}) {
  Document document = Document::from_text(text, "c.yaml", overrides);
  const Settings settings = read(document.root());
  document.finish();
  return settings;
}

inline std::string report_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return error_of([&] { read_text(text, overrides); });
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline size_t lines_with(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

// A directory of its own for one test, removed at the end.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / ("tapeformer-config-" + name + "-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tapeformer::config::sample
