// SPDX-License-Identifier: Apache-2.0
#include "framework/train/signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace tapeformer::train {
namespace {

// A handler may touch only lock-free atomics; there is one process, so there is one set of flags.
std::atomic<int> stop{0}, save{0}, status{0}, training{0};
static_assert(std::atomic<int>::is_always_lock_free);

void handle(int signal) {
  switch (signal) {
    case SIGUSR1: save = 1; break;
    case SIGUSR2: status = 1; break;
    case SIGHUP: break;
    default:
      if (stop != 0 || training == 0) _exit(128 + signal);  // files are intact: they are only ever renamed into place
      stop = signal;
  }
}

constexpr int watched[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP};

}  // namespace

SignalWatch::SignalWatch() {
  stop = save = status = training = 0;
  struct sigaction action = {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  for (const int s : watched) sigaction(s, &action, nullptr);
}

SignalWatch::~SignalWatch() {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  for (const int s : watched) sigaction(s, &action, nullptr);
}

void SignalWatch::begin_training() { training = 1; }
int SignalWatch::stop_signal() const { return stop; }
bool SignalWatch::take_save_request() { return save.exchange(0) != 0; }
bool SignalWatch::take_status_request() { return status.exchange(0) != 0; }

}  // namespace tapeformer::train
