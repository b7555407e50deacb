// SPDX-License-Identifier: Apache-2.0
// Real files in a directory of their own, settings from a text, and the error that reading them gives.
#pragma once
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "datasets/registry.h"
#include "datasets/settings.h"
#include "framework/config/document.h"
#include "framework/core/error.h"
#include "tests/framework/io/scratch.h"

namespace tapeformer::testing {

class Directory : public Scratch {
 public:
  std::string operator/(const std::string& name) const { return (path() / name).string(); }
};

// DIR in the text stands for the directory. Throws what finish() throws.
inline datasets::DataSettings settings_of(std::string yaml, const Directory& directory) {
  for (size_t at; (at = yaml.find("DIR")) != std::string::npos;) yaml.replace(at, 3, directory.path().string());
  config::Document document = config::Document::from_text(yaml, "test.yaml", {});
  const datasets::DataSettings settings = datasets::DataSettings::read(document.root());
  document.finish();
  return settings;
}

inline std::unique_ptr<data::Dataset> open(const std::string& yaml, const Directory& directory, const datasets::OpenOptions& options = {}) {
  return datasets::open_dataset(settings_of(yaml, directory), options);
}

inline data::Sample sample(const data::Dataset& d, data::Part part, int64_t index) {
  data::Sample s;
  d.read(part, index, s);
  return s;
}

struct Fault {
  int code = 0;
  std::string text;
  bool says(std::string_view part) const { return text.find(part) != std::string::npos; }
};

// What the call throws; code 0 when nothing.
template <class F>
Fault fault_of(const F& call) {
  try {
    call();
  } catch (const Error& e) {
    return {static_cast<int>(e.code()), e.what()};
  }
  return {};
}

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace tapeformer::testing
