// SPDX-License-Identifier: Apache-2.0
// The progress line: its parts, which of them fit, and how it gets to the terminal.
#include "framework/train/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace tapeformer::train {
namespace {

struct Part {
  int worth;  // the smallest is left out first
  std::string text;
};

std::string short_number(double x) {
  if (!(x >= 1000)) return fmt::format("{:.0f}", x);
  constexpr std::string_view units = "kMGT";
  size_t unit = 0;
  for (x /= 1000; x >= 999.5 && unit + 1 < units.size(); ++unit) x /= 1000;
  return fmt::format("{:.{}f}{}", x, x < 9.995 ? 2 : x < 99.95 ? 1 : 0, units[unit]);
}

std::string time_text(double seconds) {
  if (!(seconds < 100.0 * 86400)) return "long";
  const auto s = static_cast<int64_t>(std::max(std::round(seconds), 0.0));
  if (s >= 86400) return fmt::format("{}d{:02}h", s / 86400, s / 3600 % 24);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::vector<Part> parts_of(const ProgressState& s) {
  std::vector<Part> parts;
  // Rounded down, so that 100 % means done.
  if (s.fraction) parts.push_back({10, fmt::format("{:.1f}%", std::floor(std::clamp(*s.fraction, 0.0, 1.0) * 1000) / 10)});
  parts.push_back({5, fmt::format("step {}", s.update)});
  if (s.loss) parts.push_back({9, fmt::format("loss {:.4f}", *s.loss)});
  if (s.metric) parts.push_back({8, fmt::format("{} {:.4f}", s.metric_name, *s.metric)});
  if (s.tokens_per_second) parts.push_back({6, fmt::format("{} tokens/s", short_number(*s.tokens_per_second))});
  if (s.samples_per_second) parts.push_back({1, fmt::format("{} samples/s", short_number(*s.samples_per_second))});
  if (s.rate) parts.push_back({4, fmt::format("lr {:.3g}", *s.rate)});
  if (s.gradient_norm) parts.push_back({3, fmt::format("grad {:.3g}", *s.gradient_norm)});
  if (s.peak_bytes) parts.push_back({2, fmt::format("peak {:.0f} MiB", static_cast<double>(*s.peak_bytes) / (1 << 20))});
  if (s.seconds_left) parts.push_back({7, fmt::format("ETA {}", time_text(*s.seconds_left))});
  return parts;
}

constexpr std::string_view separator = "  ";

size_t length_of(const std::vector<Part>& parts) {
  size_t length = parts.empty() ? 0 : (parts.size() - 1) * separator.size();
  for (const Part& p : parts) length += p.text.size();
  return length;
}

bool can_rewrite_lines(int descriptor) {
  const char* terminal = std::getenv("TERM");
  return isatty(descriptor) && terminal && std::strcmp(terminal, "dumb") != 0;
}

}  // namespace

std::string format_progress(const ProgressState& state, int width) {
  std::vector<Part> parts = parts_of(state);
  while (width > 0 && parts.size() > 1 && length_of(parts) > static_cast<size_t>(width))
    parts.erase(std::min_element(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.worth < b.worth; }));
  std::string line;
  for (const Part& p : parts) line.append(line.empty() ? "" : separator).append(p.text);
  if (width > 0) line.resize(std::min(line.size(), static_cast<size_t>(width)));
  return line;
}

int terminal_width(int descriptor) {
  if (const char* columns = std::getenv("COLUMNS")) {
    int value = 0;
    const char* end = columns + std::strlen(columns);
    if (const auto r = std::from_chars(columns, end, value); r.ec == std::errc() && r.ptr == end && value > 0) return value;
  }
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

ProgressWriter::ProgressWriter(const Settings& settings) : settings_(settings) {
  if (settings_.style == ProgressStyle::automatic)
    settings_.style = can_rewrite_lines(settings_.descriptor) ? ProgressStyle::bar : ProgressStyle::lines;
  settings_.every = std::max<int64_t>(settings_.every, 1);
}

void ProgressWriter::show(const ProgressState& state) {
  const bool done = state.fraction && *state.fraction >= 1;
  if (settings_.style == ProgressStyle::lines && (done || state.update % settings_.every == 0)) write(format_progress(state, 0) + '\n');
  if (settings_.style != ProgressStyle::bar) return;
  const auto now = std::chrono::steady_clock::now();
  // One column stays free: a full line makes some terminals wrap.
  last_ = format_progress(state, std::max(terminal_width(settings_.descriptor) - 1, 1));
  drawn_late_ = on_screen_ && !done && now - drawn_ < settings_.interval;
  if (drawn_late_) return;
  write("\r" + last_ + "\x1b[K");
  on_screen_ = true;
  drawn_ = now;
}

void ProgressWriter::clear() {
  if (on_screen_) write("\r\x1b[K");
  on_screen_ = false;
}

void ProgressWriter::end() {
  if (on_screen_) write((drawn_late_ ? "\r" + last_ + "\x1b[K" : "") + "\n");
  on_screen_ = false;
}

void ProgressWriter::write(const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(settings_.descriptor, text.data() + at, text.size() - at);
    if (n > 0) at += static_cast<size_t>(n);
    else if (n < 0 && errno == EINTR) continue;
    else if (n < 0 && errno == EAGAIN) return;  // a slow reader misses a line
    else {
      settings_.style = ProgressStyle::none;
      return;
    }
  }
}

}  // namespace tapeformer::train
