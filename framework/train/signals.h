// SPDX-License-Identifier: Apache-2.0
// Signals as flags that the training loop reads between two updates. The first SIGINT or SIGTERM asks it to save and leave, a second one
// leaves at once; SIGUSR1 asks for a checkpoint, SIGUSR2 for a status line; SIGHUP is ignored (the log is opened for each line).
#pragma once

namespace tapeformer::train {

// Installs the handlers for its lifetime; one at a time.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
  // From here on the first SIGINT or SIGTERM waits for the loop; before, there is nothing to save, and it leaves at once.
  void begin_training();
  int stop_signal() const;  // SIGINT, SIGTERM, or 0
  bool take_save_request();
  bool take_status_request();
};

}  // namespace tapeformer::train
