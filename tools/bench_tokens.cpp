// SPDX-License-Identifier: Apache-2.0
#include "tools/bench_tokens.h"

#include <algorithm>
#include <fstream>

#include "framework/core/random.h"

namespace tapeformer::tools {
namespace {

// A line of /proc/self/status in MiB, such as VmHWM (the most resident memory since its last reset).
double status_mib(const std::string& key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key + ":")) return std::stod(line.substr(key.size() + 1)) / 1024;
  return 0;
}

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

}  // namespace

RandomTokens::RandomTokens(const TokenSettings& settings) : settings_(settings) {
  description_.vocab_size = settings.vocab;
  description_.max_length = settings.length;
  for (int64_t k = 0; k < settings.classes; ++k) description_.labels.push_back(fmt::format("{}", k));
}

int32_t RandomTokens::length(data::Part, int64_t index) const {
  if (!settings_.ragged) return static_cast<int32_t>(settings_.length);
  const double u = Draw{random_key(1, "bench", "length"), static_cast<uint32_t>(index), 0}.uniform(0, 0);
  const int64_t shortest = std::max<int64_t>(1, settings_.length / 4);
  return static_cast<int32_t>(shortest + static_cast<int64_t>(u * static_cast<double>(settings_.length - shortest + 1)));
}

void RandomTokens::read(data::Part part, int64_t index, data::Sample& out) const {
  const Draw draw{random_key(1, "bench", "token"), static_cast<uint32_t>(index), 0};
  out = {};
  for (int32_t i = 0; i < length(part, index); ++i)
    out.tokens.push_back(static_cast<int32_t>(draw.word(static_cast<uint32_t>(i), 0) % static_cast<uint64_t>(settings_.vocab)));
  out.label = static_cast<int32_t>(index % settings_.classes);
}

MemoryWatch::MemoryWatch() {
  std::ofstream("/proc/self/clear_refs") << "5";  // resets VmHWM
  before_ = status_mib("VmRSS");
}
double MemoryWatch::peak_mib() const { return status_mib("VmHWM") - before_; }

Quartiles quartiles(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {quantile(values, 0.25), quantile(values, 0.5), quantile(values, 0.75)};
}

}  // namespace tapeformer::tools
