// SPDX-License-Identifier: Apache-2.0
// Lines from files, and lines and rows from a pipe that stays open.
#include "framework/io/line_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "framework/core/error.h"
#include "framework/io/csv.h"
#include "tests/framework/io/scratch.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::io;
using namespace std::string_literals;

namespace {

// A pipe with a name; both ends are open from the start.
class Pipe {
 public:
  Pipe() {
    if (mkfifo(path().c_str(), 0600) != 0) throw std::runtime_error("no pipe");
    descriptor_ = open(path().c_str(), O_RDWR);
  }
  ~Pipe() { close(); }
  std::filesystem::path path() const { return scratch_.path() / "pipe"; }
  void put(const std::string& bytes) const {
    REQUIRE(write(descriptor_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

 private:
  Scratch scratch_;
  int descriptor_ = -1;
};

}  // namespace

TEST_CASE("lines, their ends, numbers and places") {
  const Scratch scratch;
  LineReader lines(scratch.write("a", "\xEF\xBB\xBFone\r\n\n" + std::string(100000, 'x') + "\nlast"));
  std::string line;
  REQUIRE(lines.next(line));
  CHECK((line == "one" && lines.line() == 1 && lines.offset() == 3));
  REQUIRE(lines.next(line));
  CHECK((line.empty() && lines.line() == 2 && lines.offset() == 8));
  REQUIRE(lines.next(line));
  CHECK((line.size() == 100000 && lines.offset() == 9));
  CHECK(lines.ready());
  REQUIRE(lines.next(line));
  CHECK((line == "last" && lines.line() == 4 && lines.offset() == 100010));
  CHECK_FALSE(lines.next(line));
  CHECK(lines.ready());
  CHECK_FALSE(LineReader(scratch.write("b", "")).next(line));
  CHECK_THROWS_AS(LineReader(scratch.path() / "none"), Error);
}

TEST_CASE("a line in a pipe is there before the next one") {
  Pipe pipe;
  LineReader lines(pipe.path());
  std::string line;
  CHECK_FALSE(lines.ready());
  pipe.put("one\ntw");
  REQUIRE(lines.ready());
  REQUIRE(lines.next(line));
  CHECK(line == "one");
  CHECK_FALSE(lines.ready());
  pipe.put("o\n");
  REQUIRE(lines.ready());
  REQUIRE(lines.next(line));
  CHECK(line == "two");
  pipe.put("end");
  CHECK_FALSE(lines.ready());
  pipe.close();
  CHECK(lines.ready());
  REQUIRE(lines.next(line));
  CHECK(line == "end");
  CHECK_FALSE(lines.next(line));
}

TEST_CASE("a row in a pipe is there before the next one") {
  Pipe pipe;
  pipe.put("a,b\n");
  CsvReader rows(pipe.path(), ',', Encoding::utf8);
  CHECK(rows.columns() == std::vector<std::string>{"a", "b"});
  CHECK_FALSE(rows.ready());
  pipe.put("1,2\r\n\n3,\"x\ny");
  CsvRow row;
  REQUIRE(rows.ready());
  REQUIRE(rows.next(row));
  CHECK(row.fields == std::vector<std::string>{"1", "2"});
  CHECK_FALSE(rows.ready());
  pipe.put("\"\n");
  REQUIRE(rows.ready());
  REQUIRE(rows.next(row));
  CHECK(row.fields == std::vector<std::string>{"3", "x\ny"});
  CHECK((row.row == 2 && row.line == 4));
  CHECK_FALSE(rows.ready());
  pipe.put("5,6");
  CHECK_FALSE(rows.ready());
  pipe.close();
  REQUIRE(rows.ready());
  REQUIRE(rows.next(row));
  CHECK(row.fields == std::vector<std::string>{"5", "6"});
  CHECK(rows.ready());
  CHECK_FALSE(rows.next(row));
}
