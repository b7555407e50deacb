// SPDX-License-Identifier: Apache-2.0
// Output to a place that a user named: what is no file stays what it is, and links are followed.
#include "framework/io/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "framework/core/error.h"
#include "tests/framework/io/scratch.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::io;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

TEST_CASE("output goes where symbolic links lead") {
  const Scratch scratch;
  fs::create_directory(scratch.path() / "deep");
  fs::create_symlink("deep/other", scratch.path() / "link");
  fs::create_symlink("file", scratch.path() / "deep/other");
  for (const std::string text : {"new", "again"}) {  // nothing is there at first
    write_output(scratch.path() / "link", text);
    CHECK(scratch.read("deep/file") == text);
  }
  CHECK(fs::is_symlink(scratch.path() / "link"));
  CHECK(fs::is_symlink(scratch.path() / "deep/other"));
  CHECK(std::distance(fs::directory_iterator(scratch.path() / "deep"), fs::directory_iterator()) == 2);
}

TEST_CASE("output to what is no file is written to it") {
  const Scratch scratch;
  const fs::path fifo = scratch.path() / "fifo";
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  const int reader = open(fifo.c_str(), O_RDWR);
  write_output(fifo, "seen");
  std::string got(4, '\0');
  CHECK(read(reader, got.data(), got.size()) == 4);
  CHECK(got == "seen");
  CHECK(fs::is_fifo(fifo));
  close(reader);
  write_output("/dev/null", "gone");
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("output that has nowhere to go is refused") {
  const Scratch scratch;
  fs::create_symlink("round", scratch.path() / "round");
  const auto refusal = [](const fs::path& file) -> std::string {
    try {
      write_output(file, "x");
    } catch (const Error& e) {
      CHECK(e.code() == ExitCode::resource);
      return e.what();
    }
    return "written";
  };
  CHECK_THAT(refusal(scratch.path() / "round"), ContainsSubstring("round leads to more than 40 symbolic links"));
  CHECK_THAT(refusal(scratch.path()), ContainsSubstring("Is a directory"));
  CHECK_THAT(refusal(scratch.path() / "no" / "file"), ContainsSubstring("there is no directory " + (scratch.path() / "no").string()));
}
