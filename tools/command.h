// SPDX-License-Identifier: Apache-2.0
// The verbs of the command line. Each registers its options and, when chosen, leaves its action; main runs it and turns faults into exit
// codes.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/log.h"
#include "tools/verb.h"

namespace tapeformer::tools {

struct Command {
  std::function<ExitCode()> action;
  Log log;
  std::string progress = "auto";       // auto, bar, lines, none
  std::string device;                  // over device.type
  int threads = -1;                    // over device.threads
  std::vector<std::string> arguments;  // as given, for command.txt
  // Overrides that stand for the global flags.
  std::vector<std::string> flag_overrides() const;
};

// What ended a verb as an Error: out of memory and what the file system refused are faults of the surroundings, all else is ours.
Error as_error(const std::exception&);

void add_attn(const Verb&, Command&);
void add_train(const Verb&, Command&);
void add_eval(const Verb&, Command&);
void add_predict(const Verb&, Command&);
void add_config(const Verb&, Command&);
void add_data(const Verb&, Command&);
void add_inspect(const Verb&, Command&);
void add_model(const Verb&, Command&);
void add_bench(const Verb&, Command&);
void add_compare(const Verb&, Command&);
void add_env(const Verb&);

}  // namespace tapeformer::tools
