// SPDX-License-Identifier: Apache-2.0
// Learning rates by tables: first update, end of the warm-up, last update and beyond, warm-up longer than the run, a run of one update.
#include "framework/optim/schedule.h"

#include <cmath>

#include "framework/core/error.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using optim::ScheduleType;

namespace {

optim::ScheduleSettings schedule(ScheduleType type, int64_t warmup, double min_rate = 0) {
  optim::ScheduleSettings s;
  s.type = type;
  s.warmup = warmup;
  s.min_rate = min_rate;
  return s;
}

struct Row {
  ScheduleType type;
  int64_t warmup, total, update;
  double expected;
};

}  // namespace

TEST_CASE("rates follow the documented formulas", "[schedule]") {
  const double peak = 2, low = 0.5, end = 2.0 / 25 / 1e4;
  const std::vector<Row> table{
      // warm-up is the same for all but one_cycle
      {ScheduleType::constant, 4, 10, 1, 0.5},
      {ScheduleType::constant, 4, 10, 4, 2},
      {ScheduleType::constant, 4, 10, 5, 2},
      {ScheduleType::constant, 0, 10, 1, 2},
      {ScheduleType::constant, 0, 0, 1000000, 2},
      {ScheduleType::constant, 20, 10, 10, 1},
      {ScheduleType::linear, 4, 10, 1, 0.5},
      {ScheduleType::linear, 4, 10, 4, 2},
      {ScheduleType::linear, 4, 10, 5, 1.75},
      {ScheduleType::linear, 4, 10, 7, 1.25},
      {ScheduleType::linear, 4, 10, 10, 0.5},
      {ScheduleType::linear, 4, 10, 11, 0.5},
      {ScheduleType::linear, 4, 10, 1000000, 0.5},
      {ScheduleType::linear, 0, 3, 1, 1.5},
      {ScheduleType::linear, 0, 1, 1, 0.5},
      {ScheduleType::linear, 1, 1, 1, 2},
      {ScheduleType::linear, 20, 10, 10, 1},
      {ScheduleType::linear, 20, 10, 20, 2},
      {ScheduleType::linear, 20, 10, 21, 0.5},
      {ScheduleType::cosine, 4, 10, 2, 1},
      {ScheduleType::cosine, 4, 10, 4, 2},
      {ScheduleType::cosine, 4, 10, 6, 0.5 + 1.5 * (1 + std::cos(M_PI / 3)) / 2},
      {ScheduleType::cosine, 4, 10, 7, 1.25},
      {ScheduleType::cosine, 4, 10, 10, 0.5},
      {ScheduleType::cosine, 4, 10, 99, 0.5},
      {ScheduleType::cosine, 0, 1, 1, 0.5},
      {ScheduleType::inverse_sqrt, 4, 0, 3, 1.5},
      {ScheduleType::inverse_sqrt, 4, 0, 4, 2},
      {ScheduleType::inverse_sqrt, 4, 0, 16, 1},
      {ScheduleType::inverse_sqrt, 4, 0, 64, 0.5},
      {ScheduleType::inverse_sqrt, 4, 0, 6400, 0.5},
      {ScheduleType::inverse_sqrt, 0, 0, 1, 2},
      {ScheduleType::inverse_sqrt, 0, 0, 4, 1},
      // torch.optim.lr_scheduler.OneCycleLR(max_lr=2, total_steps=10, pct_start=0.3, anneal_strategy="linear")
      {ScheduleType::one_cycle, 3, 10, 1, 0.08},
      {ScheduleType::one_cycle, 3, 10, 2, 1.04},
      {ScheduleType::one_cycle, 3, 10, 3, 2},
      {ScheduleType::one_cycle, 3, 10, 4, 1.7142868571428573},
      {ScheduleType::one_cycle, 3, 10, 9, 0.2857211428571428},
      {ScheduleType::one_cycle, 3, 10, 10, end},
      {ScheduleType::one_cycle, 3, 10, 11, end},
      {ScheduleType::one_cycle, 0, 10, 1, 2 + (end - 2) / 10},
      {ScheduleType::one_cycle, 1, 10, 1, 2},
      {ScheduleType::one_cycle, 1, 10, 10, end},
      {ScheduleType::one_cycle, 0, 1, 1, end},
      {ScheduleType::one_cycle, 10, 10, 10, 2},
      {ScheduleType::one_cycle, 21, 10, 11, 1.04},
      {ScheduleType::one_cycle, 21, 10, 22, end},
  };
  for (const Row& r : table) {
    INFO("type " << static_cast<int>(r.type) << " warmup " << r.warmup << " total " << r.total << " update " << r.update);
    CHECK_THAT(optim::rate(schedule(r.type, r.warmup, low), peak, r.update, r.total), Catch::Matchers::WithinAbs(r.expected, 1e-14));
  }
}

TEST_CASE("the last rate of linear and cosine is min_lr to the bit", "[schedule]") {
  for (const auto type : {ScheduleType::linear, ScheduleType::cosine})
    for (const int64_t total : {1, 7, 1000, 123457}) CHECK(optim::rate(schedule(type, 0, 1e-6), 3e-4, total, total) == 1e-6);
}

TEST_CASE("rates are never negative, not finite, or above the peak", "[schedule]") {
  for (const auto type :
       {ScheduleType::constant, ScheduleType::linear, ScheduleType::cosine, ScheduleType::one_cycle, ScheduleType::inverse_sqrt})
    for (const int64_t warmup : {0, 1, 2, 9, 10, 11, 40})
      for (const int64_t total : {1, 2, 10, 11})
        for (int64_t update = 1; update < 50; ++update) {
          const double r = optim::rate(schedule(type, warmup), 1e-3, update, total);
          if (!(r >= 0 && r <= 1e-3))
            FAIL("type " << static_cast<int>(type) << " warmup " << warmup << " total " << total << " update " << update << ": " << r);
        }
  CHECK_THROWS_AS(optim::rate(schedule(ScheduleType::linear, 0), 1, 0, 10), Error);
}

TEST_CASE("only some schedules ask how long the run is", "[schedule]") {
  for (const auto type :
       {ScheduleType::constant, ScheduleType::linear, ScheduleType::cosine, ScheduleType::one_cycle, ScheduleType::inverse_sqrt}) {
    bool differs = false;
    for (int64_t update = 1; update < 30; ++update)
      differs |= optim::rate(schedule(type, 3), 1, update, 20) != optim::rate(schedule(type, 3), 1, update, 25);
    CHECK(optim::depends_on_total(schedule(type, 3)) == differs);
  }
}
