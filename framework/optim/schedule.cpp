// SPDX-License-Identifier: Apache-2.0
// The formulas of schedule.h.
#include "framework/optim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/core/error.h"

namespace tapeformer::optim {
namespace {

double between(double from, double to, double fraction) { return from + (to - from) * fraction; }

// Numbers update 1 as step 0, as PyTorch does. Without a warm-up the fall starts at step -1, so the peak itself is never taken.
double one_cycle(const ScheduleSettings& s, double peak, int64_t update, int64_t total) {
  const double start = peak / s.start_div, end = start / s.final_div;
  if (update == s.warmup) return peak;
  if (update < s.warmup) return between(start, peak, static_cast<double>(update - 1) / static_cast<double>(s.warmup - 1));
  if (update >= total) return end;
  return between(peak, end, static_cast<double>(update - s.warmup) / static_cast<double>(total - s.warmup));
}

}  // namespace

ScheduleSettings read_schedule_settings(config::Section schedule, double peak) {
  ScheduleSettings s;
  schedule.choice("type", s.type,
                  {{"constant", ScheduleType::constant},
                   {"linear", ScheduleType::linear},
                   {"cosine", ScheduleType::cosine},
                   {"one_cycle", ScheduleType::one_cycle},
                   {"inverse_sqrt", ScheduleType::inverse_sqrt}},
                  "how the learning rate changes after the warm-up");
  schedule.count("warmup", s.warmup, config::at_least(0), "updates in which the rate rises to optim.lr");
  schedule.field("min_lr", s.min_rate, config::at_least(0), "linear, cosine: the rate of the last update; inverse_sqrt: the lowest rate");
  schedule.field("start_div", s.start_div, config::at_least(1), "one_cycle: the first rate is optim.lr divided by this");
  schedule.field("final_div", s.final_div, config::at_least(1), "one_cycle: the last rate is the first divided by this");
  if (s.type != ScheduleType::one_cycle)
    for (const char* key : {"start_div", "final_div"}) schedule.unused(key, schedule.path("type"));
  if (s.type == ScheduleType::constant || s.type == ScheduleType::one_cycle) schedule.unused("min_lr", schedule.path("type"));
  else if (s.min_rate > peak)
    schedule.fault("min_lr", fmt::format("'{}' is {}, above 'optim.lr' = {}", schedule.path("min_lr"), s.min_rate, peak),
                   "the rate falls from optim.lr to min_lr; lower min_lr or raise optim.lr");
  return s;
}

bool depends_on_total(const ScheduleSettings& s) {
  return s.type == ScheduleType::linear || s.type == ScheduleType::cosine || s.type == ScheduleType::one_cycle;
}

double rate(const ScheduleSettings& s, double peak, int64_t update, int64_t total_updates) {
  require(update >= 1, "updates are counted from 1, got {}", update);
  if (s.type == ScheduleType::one_cycle) return one_cycle(s, peak, update, total_updates);
  const auto u = static_cast<double>(update), w = static_cast<double>(s.warmup);
  if (update <= s.warmup) return peak * u / w;
  const double f = update >= total_updates ? 1 : (u - w) / (static_cast<double>(total_updates) - w);
  switch (s.type) {
    case ScheduleType::linear:
      return f == 1 ? s.min_rate : between(peak, s.min_rate, f);
    case ScheduleType::cosine:
      return f == 1 ? s.min_rate : s.min_rate + (peak - s.min_rate) * (1 + std::cos(std::numbers::pi * f)) / 2;
    case ScheduleType::inverse_sqrt:
      return std::max(s.min_rate, peak * std::sqrt(std::max(w, 1.0) / u));
    default:
      return peak;
  }
}

}  // namespace tapeformer::optim
