// SPDX-License-Identifier: Apache-2.0
// A verb of the command line and its options. What the verbs need of the parser's library stands behind this, so that two files compile
// that library and not each verb (it is a header of its own templates and constants: four seconds for a file of one line).
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/error.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tapeformer::tools {

struct Command;

// What is asked of an option. A command line that breaks it is exit 2.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}
  Option& required();
  Option& one_of(std::initializer_list<const char*> words);
  Option& range(int64_t least, int64_t most);
  Option& range_of_reals(double least, double most);
  Option& list();                                                 // one word, its items parted by commas
  Option& rewrite(std::string (*rewritten)(const std::string&));  // of each item, before it is checked
  Option& needs(const char* other);                               // by its name
  Option& excludes(const Option& other);

 private:
  CLI::Option* option_;
};

class Verb {
 public:
  Verb(CLI::App& app, Command& command) : app_(&app), command_(&command) {}
  // A verb below this one.
  Verb verb(const std::string& name, const std::string& help) const;
  // This verb does nothing without one of those below it.
  void needs_verb() const;
  // What main calls where this verb is chosen.
  void runs(std::function<ExitCode()> action) const;

  // NAMES as "-o,--output", or one without a dash for what stands by its place. The value must outlive the parsing.
  Option option(const std::string& names, std::string& value, const std::string& help) const;
  Option option(const std::string& names, std::optional<std::string>& value, const std::string& help) const;
  Option option(const std::string& names, int64_t& value, const std::string& help) const;
  Option option(const std::string& names, double& value, const std::string& help) const;
  Option option(const std::string& names, std::vector<std::string>& value, const std::string& help) const;
  Option option(const std::string& names, std::vector<int64_t>& value, const std::string& help) const;
  Option option(const std::string& names, std::vector<uint64_t>& value, const std::string& help) const;
  Option flag(const std::string& names, bool& value, const std::string& help) const;

 private:
  CLI::App* app_;
  Command* command_;
};

}  // namespace tapeformer::tools
