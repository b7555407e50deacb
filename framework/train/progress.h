// SPDX-License-Identifier: Apache-2.0
// What a person sees while a run goes on: one line that is rewritten on a terminal, a plain line every so many updates elsewhere. It has no
// colours and no control characters but those that rewrite the line.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace tapeformer::train {

// Absent numbers are left out of the line.
struct ProgressState {
  int64_t update = 0;
  std::optional<double> fraction;  // of the run that is done, 0 to 1
  std::optional<double> loss;
  std::string metric_name = "accuracy";
  std::optional<double> metric;
  std::optional<double> tokens_per_second, samples_per_second;
  std::optional<double> rate, gradient_norm;
  std::optional<uint64_t> peak_bytes;
  std::optional<double> seconds_left;
};

// At most `width` characters; 0 = as long as it gets. What matters least is left out first: samples/s, peak memory, the gradient norm, ...
std::string format_progress(const ProgressState& state, int width);

enum class ProgressStyle { automatic, bar, lines, none };

// Columns of the terminal: COLUMNS, else what the terminal says, else 80.
int terminal_width(int descriptor);

// Writes progress to a file descriptor (standard error). A reader that has gone away silences it; it never throws and never stops a run.
// The program must ignore SIGPIPE.
class ProgressWriter {
 public:
  struct Settings {
    ProgressStyle style = ProgressStyle::automatic;  // bar on a terminal that can rewrite a line, else lines
    int64_t every = 50;                              // lines: one every so many updates, and the last
    std::chrono::milliseconds interval{100};         // bar: rewritten at most so often
    int descriptor = 2;
  };
  explicit ProgressWriter(const Settings& settings);
  ~ProgressWriter() { end(); }
  ProgressWriter(const ProgressWriter&) = delete;
  ProgressWriter& operator=(const ProgressWriter&) = delete;

  void show(const ProgressState& state);
  // Takes the line off the screen, so that something else can be written there; the next show() draws it again.
  void clear();
  // Leaves the last line standing and moves to the next.
  void end();
  ProgressStyle style() const { return settings_.style; }  // never automatic

 private:
  void write(const std::string& text);

  Settings settings_;
  std::string last_;  // the line of the last show() in full
  bool on_screen_ = false, drawn_late_ = false;
  std::chrono::steady_clock::time_point drawn_{};
};

}  // namespace tapeformer::train
