// SPDX-License-Identifier: Apache-2.0
#include "tools/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "framework/core/error.h"

namespace tapeformer::tools {
namespace {

constexpr const char* own_program = "/proc/self/exe";

// In the child, between fork and exec: a group of its own, so that a terminal's Ctrl-C reaches it through the parent alone.
[[noreturn]] void become(const std::vector<std::string>& arguments, int output, pid_t parent, const sigset_t& mask) {
  std::vector<char*> words{const_cast<char*>("tapeformer")};
  for (const std::string& a : arguments) words.push_back(const_cast<char*>(a.c_str()));
  words.push_back(nullptr);
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(128 + SIGTERM);
  ::dup2(output, STDOUT_FILENO);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  ::execv(own_program, words.data());
  ::_exit(static_cast<int>(ExitCode::internal));
}

// Appends what the pipe holds; false when its other end is closed.
bool take(int pipe, std::string& text) {
  std::array<char, 4096> bytes;
  for (;;) {
    const ssize_t n = ::read(pipe, bytes.data(), bytes.size());
    if (n > 0) text.append(bytes.data(), static_cast<size_t>(n));
    else if (n == 0) return false;
    else if (errno != EINTR) return errno == EAGAIN;
  }
}

}  // namespace

ChildRunner::ChildRunner() {
  sigemptyset(&watched_);
  sigaddset(&watched_, SIGINT);
  sigaddset(&watched_, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &watched_, &before_);
}

ChildRunner::~ChildRunner() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

int ChildRunner::stop_signal() {
  const timespec now{};
  if (const int signal = ::sigtimedwait(&watched_, nullptr, &now); signal > 0) stop_ = signal;
  return stop_;
}

ChildResult ChildRunner::run(const std::vector<std::string>& arguments) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail(ExitCode::resource, "cannot make a pipe: {}", std::strerror(errno));
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) {
    for (const int end : ends) ::close(end);
    fail(ExitCode::resource, "cannot start a process: {}", std::strerror(errno));
  }
  if (child == 0) become(arguments, ends[1], parent, before_);
  ::close(ends[1]);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  ChildResult result;
  const timespec moment{0, 50'000'000};
  for (bool open = true; open;) {
    if (const int signal = ::sigtimedwait(&watched_, nullptr, &moment); signal > 0) {
      stop_ = signal;
      ::kill(child, signal);
    }
    open = take(ends[0], result.text);
  }
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  result.killed = WIFSIGNALED(status);
  result.code = result.killed ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

}  // namespace tapeformer::tools
