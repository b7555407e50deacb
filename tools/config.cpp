// SPDX-License-Identifier: Apache-2.0
// `tapeformer config`: check a config, show all its values with their origin, explain a key.
#include <algorithm>

#include "tools/attention_names.h"
#include "tools/command.h"
#include "tools/experiment.h"
#include "tools/standard_output.h"

namespace tapeformer::tools {
namespace {

struct Options {
  std::vector<std::string> words;  // CONFIG and overrides
  std::string key, config;
};

config::Document load(Command& command, const std::string& file, std::vector<std::string> overrides) {
  for (auto& o : command.flag_overrides()) overrides.push_back(std::move(o));
  return config::Document::load(file, overrides);
}
config::Document load(Command& command, const std::vector<std::string>& words) {
  return load(command, words.at(0), {words.begin() + 1, words.end()});
}

ExitCode check(Command& command, const Options& options) {
  config::Document document = load(command, options.words);
  read_experiment(document, command.log);
  return print_result(printable(options.words[0]) + ": no faults\n");
}

// Marks the sections of attention variants that no layer uses: their lines stand below "model:" and "attention:".
std::string with_unused_marked(const std::string& resolved, const models::ModelSettings& model) {
  const std::set<std::string> used = used_variants(model.attention);
  std::string text, path[2];
  for (size_t at = 0; at < resolved.size();) {
    const size_t end = std::min(resolved.find('\n', at), resolved.size());
    std::string line = resolved.substr(at, end - at);
    at = end + 1;
    const size_t indent = line.find_first_not_of(' ');
    const std::string key = indent == std::string::npos ? "" : line.substr(indent, line.find(':', indent) - indent);
    if (indent == 0 || indent == 2) path[indent / 2] = key;
    if (indent == 0) path[1].clear();
    if (indent == 4 && path[0] == "model" && path[1] == "attention") {
      for (const auto& variant : models::attention_variants())
        if (key == variant.name && !used.contains(key)) line += " (unused: no layer has this type)";
    }
    text += line + "\n";
  }
  return text;
}

ExitCode show(Command& command, const Options& options) {
  config::Document document = load(command, options.words);
  const Experiment experiment = read_experiment(document, command.log);
  return print_result(with_unused_marked(document.resolved(), experiment.model));
}

ExitCode explain(Command& command, const Options& options) {
  if (!options.config.empty()) {
    if (options.key.empty()) fail(ExitCode::usage, "name the KEY to explain; `tapeformer config show` prints where every value comes from");
    config::Document document = load(command, options.config, options.words);
    read_experiment(document, command.log);
    return print_result(document.explain(options.key));
  }
  if (!options.words.empty()) fail(ExitCode::usage, "'{}': overrides need --config CONFIG", printable(options.words[0]));
  config::Document document = config::Document::empty();
  try {
    read_experiment(document, command.log);
  } catch (const Error& e) {
    if (e.code() != ExitCode::usage) throw;  // keys without a default are missing here, which does not matter
  }
  return print_result(document.reference(options.key));
}

}  // namespace

void add_config(const Verb& program, Command& command) {
  auto options = std::make_shared<Options>();
  const Verb sub = program.verb("config", "Check a config, show its values, explain its keys");
  sub.needs_verb();
  const auto add = [&](const char* name, const char* help, ExitCode (*run)(Command&, const Options&)) {
    const Verb verb = sub.verb(name, help);
    verb.runs([&command, options, run] { return run(command, *options); });
    return verb;
  };
  add("check", "Read a config as `train` would, without touching data; exit 2 with every fault, or 0", check)
      .option("CONFIG", options->words, "A config file, then overrides key.path=value (~key.path removes a key)")
      .required();
  add("show", "Print every key with its value and where that comes from", show)
      .option("CONFIG", options->words, "A config file, then overrides key.path=value (~key.path removes a key)")
      .required();
  const Verb verb =
      add("explain", "The reference of all keys, or of one key or section; with --config, where its value comes from", explain);
  verb.option("KEY", options->key, "A key or section, such as optim.lr");
  verb.option("OVERRIDES", options->words, "With --config: overrides key.path=value (~key.path removes a key)");
  verb.option("--config", options->config, "Explain the value of the key in this config");
}

}  // namespace tapeformer::tools
