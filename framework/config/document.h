// SPDX-License-Identifier: Apache-2.0
// A config: a YAML file over its bases, with command-line overrides on top. Every fault is collected and shown at once, like a compiler
// does.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/config/section.h"

namespace tapeformer::config {

struct DocumentState;

class Document {
 public:
  // Reads FILE, what its `base:` names, and the overrides (`key.path=value`, `~key.path` removes). Nothing else is read or written.
  static Document load(const std::filesystem::path& file, const std::vector<std::string>& overrides);
  // The same from text; `name` stands for the file in messages.
  static Document from_text(std::string text, std::string name, const std::vector<std::string>& overrides);
  // The same from a resolved config that was stored: what it has without meaning is kept and passed over.
  static Document from_checkpoint(std::string text, std::string name, const std::vector<std::string>& overrides);
  // Values of nothing: reading settings from it records what exists, for reference().
  static Document empty();

  Section root();
  // For a config that is looked at and not run: what this build or machine lacks is no fault then. To be said before it is read.
  void allow_unavailable();
  // After all components have read their settings: throws ReportError whose text is the whole report if there was any fault,
  // unread (unknown) keys included. Warnings are returned.
  std::vector<std::string> finish();
  // True when there are faults so far: combination checks that need valid values can be skipped.
  bool faulty() const;
  // True when a key was given that has no meaning, unless the document is a stored one.
  bool meaningless() const;

  // The bytes of the file as the user gave it.
  const std::string& user_text() const;
  // Every key that was asked for with its value and "# from: default | FILE:LINE | command line". Reads back as a config of its own.
  std::string resolved() const;
  // Dotted key -> value as resolved() prints it, to compare two configs.
  std::map<std::string, std::string> values() const;
  // The same with what was given where it has no meaning.
  std::map<std::string, std::string> given_values() const;
  // The printed reference of every key asked for: name, type, range or words, default, help; or of one key or section.
  std::string reference(std::string_view key = {}) const;
  // Where one key's value comes from and what it overrode.
  std::string explain(std::string_view key) const;

 private:
  explicit Document(std::shared_ptr<DocumentState> state) : state_(std::move(state)) {}
  std::shared_ptr<DocumentState> state_;
};

// The file that this one's own `base:` names, which need not be there; an empty path without a base. Nothing where the file cannot be read
// as a config.
std::optional<std::filesystem::path> base_of(const std::filesystem::path& file);

}  // namespace tapeformer::config
