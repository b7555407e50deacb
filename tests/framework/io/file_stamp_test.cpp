// SPDX-License-Identifier: Apache-2.0
// A file that is written to has changed; one that is removed or replaced under its name has not, for who has it open.
#include "framework/io/file_stamp.h"

#include <filesystem>
#include <fstream>

#include "tests/framework/io/scratch.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using tapeformer::io::FileStamp;

TEST_CASE("changes of a file") {
  const Scratch scratch;
  const auto file = scratch.write("data.h5", "twelve bytes");
  const FileStamp stamp(file);
  CHECK_FALSE(stamp.changed());
  SECTION("longer") {
    std::ofstream(file, std::ios::app) << "x";
    CHECK(stamp.changed());
  }
  SECTION("shorter") {
    std::filesystem::resize_file(file, 5);
    CHECK(stamp.changed());
  }
  SECTION("the same size at another time") {
    std::filesystem::last_write_time(file, std::filesystem::last_write_time(file) + std::chrono::milliseconds(1));
    CHECK(stamp.changed());
  }
  SECTION("removed") {
    std::filesystem::remove(file);
    CHECK_FALSE(stamp.changed());
  }
  SECTION("replaced") {
    std::filesystem::rename(scratch.write("other", "other bytes"), file);
    CHECK_FALSE(stamp.changed());
  }
}
