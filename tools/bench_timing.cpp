// SPDX-License-Identifier: Apache-2.0
#include "tools/bench_timing.h"

#include <fstream>
#include <numeric>

#include "tools/quantile.h"

namespace tapeformer::tools {
namespace {

// A line of /proc/self/status in MiB, such as VmHWM (the most resident memory since its last reset).
double status_mib(const std::string& key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key + ":")) return std::stod(line.substr(key.size() + 1)) / 1024;
  return 0;
}

struct Quartiles {
  double first, median, third;
};
Quartiles quartiles(const std::vector<double>& values) { return {quantile(values, 0.25), median(values), quantile(values, 0.75)}; }

double tokens_per_s(const Timing& t) { return static_cast<double>(t.tokens) / t.seconds(); }

}  // namespace

MemoryWatch::MemoryWatch() {
  std::ofstream("/proc/self/clear_refs") << "5";  // resets VmHWM
  before_ = status_mib("VmRSS");
}
double MemoryWatch::peak_mib() const { return status_mib("VmHWM") - before_; }

double Timing::seconds() const { return std::accumulate(milliseconds.begin(), milliseconds.end(), 0.0) / 1000; }

std::string timing_text(const Timing& t, std::string_view step) {
  const Quartiles ms = quartiles(t.milliseconds);
  return fmt::format("median {:.3f} ms a {} (quartiles {:.3f}, {:.3f}), {:.0f} tokens/s, peak {:.1f} MiB above the loaded model\n",
                     ms.median, step, ms.first, ms.third, tokens_per_s(t), t.peak_mib);
}

nlohmann::ordered_json timing_json(const Timing& t, const BenchSizes& sizes, const Execution& on) {
  const Quartiles ms = quartiles(t.milliseconds);
  return {{"config", sizes.words[0]},
          {"batch", sizes.batch},
          {"length", sizes.length},
          {"ragged", sizes.ragged},
          {"threads", on.threads->threads()},
          {"device", name_of(on.device)},
          {"steps", sizes.steps},
          {"median_ms", ms.median},
          {"quartile1_ms", ms.first},
          {"quartile3_ms", ms.third},
          {"tokens_per_s", tokens_per_s(t)},
          {"peak_mib", t.peak_mib},
          {"allocated_bytes", t.allocated_bytes / static_cast<uint64_t>(sizes.steps)}};
}

}  // namespace tapeformer::tools
