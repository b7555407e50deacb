// SPDX-License-Identifier: Apache-2.0
// One holder at a time; the second learns who the first is; a killed owner leaves nothing behind.
#include "framework/io/lock_file.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <thread>

#include "framework/core/error.h"
#include "tests/framework/io/scratch.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using Catch::Matchers::ContainsSubstring;
using tapeformer::io::LockFile;

TEST_CASE("a lock is on the file of that name, also when another is moved away meanwhile") {
  const Scratch scratch;
  const auto folder = scratch.path() / "run", aside = scratch.path() / "aside";
  std::filesystem::create_directory(folder);
  std::atomic<bool> done = false;
  int wrong = 0, taken = 0;
  std::thread other([&] {
    while (!done) try {
        const LockFile lock(folder / "LOCK", "other");
        ++taken;
        try {
          const LockFile second(folder / "LOCK", "second");
          ++wrong;  // the first was on a file that has another name by now
        } catch (const Error&) {
        }
      } catch (const Error&) {  // taken, or the folder is away for a moment
      }
  });
  for (int i = 0; i < 2000; ++i) {
    try {
      const LockFile lock(folder / "LOCK", "mover");
      std::filesystem::rename(folder, aside);
    } catch (const Error&) {
      continue;
    }
    std::filesystem::create_directory(folder);
    std::filesystem::remove_all(aside);
  }
  done = true;
  other.join();
  CHECK(wrong == 0);
  CHECK(taken > 0);
}

TEST_CASE("a second holder is refused with the first one's text until that is gone") {
  const Scratch scratch;
  const auto file = scratch.path() / "LOCK";
  std::optional<LockFile> first;
  first.emplace(file, "tapeformer train a.yaml\n");
  CHECK(first->locked());
  CHECK_THAT(scratch.read("LOCK"), ContainsSubstring("process " + std::to_string(::getpid()) + ", tapeformer train a.yaml"));
  try {
    LockFile(file, "tapeformer train b.yaml");
    FAIL("two holders");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::resource);
    CHECK_THAT(e.what(), ContainsSubstring("LOCK") && ContainsSubstring("tapeformer train a.yaml"));
  }
  LockFile moved = std::move(*first);
  first.reset();
  CHECK_THROWS_AS(LockFile(file, "b"), Error);
  {
    const LockFile last = std::move(moved);
    CHECK(last.locked());
  }
  CHECK(LockFile(file, "short").locked());
  CHECK_THAT(scratch.read("LOCK"), !ContainsSubstring("a.yaml"));
}

TEST_CASE("the lock of a killed process is free") {
  const Scratch scratch;
  const auto file = scratch.path() / "LOCK";
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const LockFile held(file, "child");
    const bool told = ::write(ready[1], "x", 1) == 1;
    while (told) ::pause();
    ::_exit(1);
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  CHECK_THROWS_WITH(LockFile(file, "parent"), ContainsSubstring("child"));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(LockFile(file, "parent").locked());
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("a lock in a missing directory is a resource error") {
  const Scratch scratch;
  try {
    LockFile(scratch.path() / "no" / "LOCK", "x");
    FAIL("locked");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::resource);
  }
}
