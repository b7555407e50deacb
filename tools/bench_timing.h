// SPDX-License-Identifier: Apache-2.0
// How the verbs of `bench` read time and memory, and print them.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/bench_setup.h"

namespace tapeformer::tools {

// Resident memory above what it was when this was made.
class MemoryWatch {
 public:
  MemoryWatch();
  double peak_mib() const;

 private:
  double before_;
};

// What the timed steps of a run gave.
struct Timing {
  std::vector<double> milliseconds;
  int64_t tokens = 0;
  uint64_t allocated_bytes = 0;  // asked of the allocator in all of them
  double peak_mib = 0;
  double seconds() const;
};

// `step` is what a step is called.
std::string timing_text(const Timing& timing, std::string_view step);
nlohmann::ordered_json timing_json(const Timing& timing, const BenchSizes& sizes, const Execution& on);

}  // namespace tapeformer::tools
