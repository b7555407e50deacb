// SPDX-License-Identifier: Apache-2.0
// The progress line at every width, the bar on a pseudo terminal, plain lines on a pipe, and a reader that goes away.
#include "framework/train/progress.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <limits>

#include "tests/support/catch.h"

using namespace tapeformer;
using train::ProgressState;
using train::ProgressStyle;
using train::ProgressWriter;

namespace {

ProgressState full_state() {
  ProgressState s;
  s.update = 1890;
  s.fraction = 0.4209;
  s.loss = 1.23456;
  s.metric = 0.5612;
  s.tokens_per_second = 123456;
  s.samples_per_second = 987;
  s.rate = 0.00193;
  s.gradient_norm = 0.831;
  s.peak_bytes = 300ull << 20;
  s.seconds_left = 3723;
  return s;
}

// Sets a variable of the environment and puts the old value back.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Environment() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

struct Pipe {
  int read_end, write_end;
  Pipe() {
    int ends[2];
    REQUIRE(pipe2(ends, O_NONBLOCK | O_CLOEXEC) == 0);
    read_end = ends[0], write_end = ends[1];
  }
  ~Pipe() {
    if (read_end >= 0) close(read_end);
    close(write_end);
  }
};

std::string drain(int descriptor) {
  std::string all;
  char buffer[4096];
  for (ssize_t n; (n = read(descriptor, buffer, sizeof buffer)) > 0;) all.append(buffer, static_cast<size_t>(n));
  return all;
}

struct Terminal {
  int master, slave;
  Terminal() {
    master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    REQUIRE(master >= 0);
    REQUIRE(grantpt(master) == 0);
    REQUIRE(unlockpt(master) == 0);
    slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    REQUIRE(slave >= 0);
    winsize size{24, 60, 0, 0};
    REQUIRE(ioctl(slave, TIOCSWINSZ, &size) == 0);
  }
  ~Terminal() { close(slave), close(master); }
};

}  // namespace

TEST_CASE("the full line has every number", "[progress]") {
  CHECK(train::format_progress(full_state(), 0) ==
        "42.0%  step 1890  loss 1.2346  accuracy 0.5612  123k tokens/s  987 samples/s  lr 0.00193  grad 0.831  peak 300 MiB  ETA 1:02:03");
}

TEST_CASE("the line fits every width and loses what matters least first", "[progress]") {
  const std::string full = train::format_progress(full_state(), 0);
  for (int width = 1; width <= 160; ++width) CHECK(train::format_progress(full_state(), width).size() <= static_cast<size_t>(width));
  CHECK(train::format_progress(full_state(), static_cast<int>(full.size())) == full);
  CHECK(train::format_progress(full_state(), static_cast<int>(full.size()) - 1).find("samples/s") == std::string::npos);
  CHECK(train::format_progress(full_state(), 63) == "42.0%  loss 1.2346  accuracy 0.5612  123k tokens/s  ETA 1:02:03");
  CHECK(train::format_progress(full_state(), 20) == "42.0%  loss 1.2346");
  CHECK(train::format_progress(full_state(), 5) == "42.0%");
  CHECK(train::format_progress(full_state(), 3) == "42.");
}

TEST_CASE("absent and odd numbers do not spoil the line", "[progress]") {
  CHECK(train::format_progress({}, 0) == "step 0");
  ProgressState s;
  s.fraction = 0.99999;
  s.loss = std::numeric_limits<double>::quiet_NaN();
  s.metric_name = "rmse";
  s.metric = 12;
  s.tokens_per_second = std::numeric_limits<double>::infinity();
  s.seconds_left = std::numeric_limits<double>::infinity();
  CHECK(train::format_progress(s, 0) == "99.9%  step 0  loss nan  rmse 12.0000  infT tokens/s  ETA long");
  const std::vector<std::pair<double, std::string>> speeds{{0, "0"},        {999, "999"},     {1000, "1.00k"},  {9999, "10.0k"},
                                                           {99990, "100k"}, {1.5e6, "1.50M"}, {999600, "1.00M"}};
  for (const auto& [speed, text] : speeds) {
    ProgressState t;
    t.tokens_per_second = speed;
    CHECK(train::format_progress(t, 0) == "step 0  " + text + " tokens/s");
  }
  const std::vector<std::pair<double, std::string>> times{{0, "0:00"},  {-3, "0:00"},      {59.6, "1:00"},
                                                          {61, "1:01"}, {3600, "1:00:00"}, {90000, "1d01h"}};
  for (const auto& [seconds, text] : times) {
    ProgressState t;
    t.seconds_left = seconds;
    CHECK(train::format_progress(t, 0) == "step 0  ETA " + text);
  }
}

TEST_CASE("where there is no terminal, plain lines come every so many updates and at the end", "[progress]") {
  const Pipe pipe;
  {
    ProgressWriter writer({ProgressStyle::automatic, 50, std::chrono::milliseconds(0), pipe.write_end});
    CHECK(writer.style() == ProgressStyle::lines);
    for (int64_t update = 1; update <= 120; ++update) {
      ProgressState s;
      s.update = update;
      s.fraction = static_cast<double>(update) / 120;
      writer.show(s);
    }
    writer.clear();
  }
  CHECK(drain(pipe.read_end) == "41.6%  step 50\n83.3%  step 100\n100.0%  step 120\n");
}

TEST_CASE("on a terminal one line is rewritten within its width, without colour", "[progress]") {
  const Terminal terminal;
  const Environment term("TERM", "xterm"), columns("COLUMNS", nullptr);
  {
    ProgressWriter writer({ProgressStyle::automatic, 50, std::chrono::milliseconds(0), terminal.slave});
    CHECK(writer.style() == ProgressStyle::bar);
    writer.show(full_state());
    CHECK(drain(terminal.master) == "\r42.0%  loss 1.2346  accuracy 0.5612  ETA 1:02:03\x1b[K");
    writer.clear();
    CHECK(drain(terminal.master) == "\r\x1b[K");
    writer.clear();
    CHECK(drain(terminal.master).empty());
    const Environment narrow("COLUMNS", "20");
    writer.show(full_state());
    CHECK(drain(terminal.master) == "\r42.0%  loss 1.2346\x1b[K");
  }
  CHECK(drain(terminal.master) == "\r\n");  // the terminal turns the line feed into both
}

TEST_CASE("the bar is rewritten at most once in its interval, and ends with the newest state", "[progress]") {
  const Pipe pipe;
  {
    ProgressWriter writer({ProgressStyle::bar, 1, std::chrono::hours(1), pipe.write_end});
    for (int64_t update = 1; update <= 3; ++update) {
      ProgressState s;
      s.update = update;
      writer.show(s);
    }
  }
  CHECK(drain(pipe.read_end) == "\rstep 1\x1b[K\rstep 3\x1b[K\n");
  ProgressWriter writer({ProgressStyle::bar, 1, std::chrono::hours(1), pipe.write_end});
  ProgressState s;
  writer.show(s);
  s.fraction = 1;
  writer.show(s);
  CHECK(drain(pipe.read_end) == "\rstep 0\x1b[K\r100.0%  step 0\x1b[K");
}

TEST_CASE("a terminal that cannot rewrite lines gets plain ones", "[progress]") {
  const Terminal terminal;
  for (const char* kind : {static_cast<const char*>(nullptr), "dumb"}) {
    const Environment term("TERM", kind);
    CHECK(ProgressWriter({ProgressStyle::automatic, 50, std::chrono::milliseconds(0), terminal.slave}).style() == ProgressStyle::lines);
  }
}

TEST_CASE("the width comes from COLUMNS, else from the terminal, else it is 80", "[progress]") {
  const Terminal terminal;
  const Pipe pipe;
  {
    const Environment columns("COLUMNS", "33");
    CHECK(train::terminal_width(terminal.slave) == 33);
  }
  for (const char* bad : {static_cast<const char*>(nullptr), "", "0", "-4", "12x", "wide", "99999999999"}) {
    const Environment columns("COLUMNS", bad);
    CHECK(train::terminal_width(terminal.slave) == 60);
    CHECK(train::terminal_width(pipe.write_end) == 80);
  }
}

TEST_CASE("a reader that goes away silences progress and nothing else", "[progress]") {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  ProgressWriter writer({ProgressStyle::lines, 1, std::chrono::milliseconds(0), pipe.write_end});
  writer.show(full_state());
  close(pipe.read_end);
  pipe.read_end = -1;
  CHECK_NOTHROW(writer.show(full_state()));
  CHECK(writer.style() == ProgressStyle::none);
  CHECK_NOTHROW(writer.show(full_state()));
  ProgressWriter closed({ProgressStyle::lines, 1, std::chrono::milliseconds(0), -1});
  CHECK_NOTHROW(closed.show(full_state()));
  std::signal(SIGPIPE, before);
}

TEST_CASE("a full pipe loses lines but not the writer", "[progress]") {
  const Pipe pipe;
  ProgressWriter writer({ProgressStyle::lines, 1, std::chrono::milliseconds(0), pipe.write_end});
  for (int i = 0; i < 2000; ++i) writer.show(full_state());
  CHECK(writer.style() == ProgressStyle::lines);
  CHECK(drain(pipe.read_end).size() > 1000);
}
