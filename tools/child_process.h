// SPDX-License-Identifier: Apache-2.0
// This program again, in a process of its own: what it measures of itself is its own, and a signal reaches it once and lets it save.
#pragma once
#include <csignal>
#include <string>
#include <vector>

namespace tapeformer::tools {

struct ChildResult {
  int code = 0;      // exit code, or 128 + the signal that ended it
  std::string text;  // its standard output
  bool killed = false;
};

// While it lives SIGINT and SIGTERM wait: they are handed on to the child that runs, once each, and can be asked for afterwards.
class ChildRunner {
 public:
  ChildRunner();
  ~ChildRunner();
  ChildRunner(const ChildRunner&) = delete;
  ChildRunner& operator=(const ChildRunner&) = delete;

  // Runs this program with these arguments; its standard error is ours. Should we be killed it gets SIGTERM.
  ChildResult run(const std::vector<std::string>& arguments);
  // SIGINT or SIGTERM if one has come; 0: none.
  int stop_signal();

 private:
  sigset_t watched_{}, before_{};
  int stop_ = 0;
};

}  // namespace tapeformer::tools
