// SPDX-License-Identifier: Apache-2.0
#include "tools/verb.h"

#include <CLI/CLI.hpp>

#include "tools/command.h"

namespace tapeformer::tools {

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::one_of(std::initializer_list<const char*> words) {
  option_->check(CLI::IsMember(std::vector<std::string>(words.begin(), words.end())));
  return *this;
}

Option& Option::range(int64_t least, int64_t most) {
  option_->check(CLI::Range(least, most));
  return *this;
}

Option& Option::range_of_reals(double least, double most) {
  option_->check(CLI::Range(least, most));
  return *this;
}

Option& Option::list() {
  option_->delimiter(',')->allow_extra_args(false);
  return *this;
}

Option& Option::rewrite(std::string (*rewritten)(const std::string&)) {
  option_->transform([rewritten](const std::string& item) { return rewritten(item); });
  return *this;
}

Option& Option::needs(const char* other) {
  option_->needs(other);
  return *this;
}

Option& Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

Verb Verb::verb(const std::string& name, const std::string& help) const { return {*app_->add_subcommand(name, help), *command_}; }

void Verb::needs_verb() const { app_->require_subcommand(1); }

void Verb::runs(std::function<ExitCode()> action) const {
  app_->callback([command = command_, action = std::move(action)] { command->action = action; });
}

Option Verb::option(const std::string& names, std::string& value, const std::string& help) const {
  return Option(*app_->add_option(names, value, help));
}
Option Verb::option(const std::string& names, std::optional<std::string>& value, const std::string& help) const {
  return Option(*app_->add_option(names, value, help));
}
Option Verb::option(const std::string& names, int64_t& value, const std::string& help) const {
  return Option(*app_->add_option(names, value, help));
}
Option Verb::option(const std::string& names, double& value, const std::string& help) const {
  return Option(*app_->add_option(names, value, help));
}
Option Verb::option(const std::string& names, std::vector<std::string>& value, const std::string& help) const {
  return Option(*app_->add_option(names, value, help));
}
Option Verb::option(const std::string& names, std::vector<int64_t>& value, const std::string& help) const {
  return Option(*app_->add_option(names, value, help));
}
Option Verb::option(const std::string& names, std::vector<uint64_t>& value, const std::string& help) const {
  return Option(*app_->add_option(names, value, help));
}
Option Verb::flag(const std::string& names, bool& value, const std::string& help) const {
  return Option(*app_->add_flag(names, value, help));
}

}  // namespace tapeformer::tools
