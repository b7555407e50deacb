// SPDX-License-Identifier: Apache-2.0
// The learning rate of each update: a pure function of the settings, the peak and the update's number, so a resume needs no state.
//
// With peak P, minimum M, warm-up w, number of updates T, update u (from 1), and f = min(1, (u - w) / (T - w)):
//   warm-up, u <= w   P u / w, so that P is reached at u = w
//   constant          P
//   linear            P + (M - P) f
//   cosine            M + (P - M) (1 + cos(pi f)) / 2
//   inverse_sqrt      max(M, P sqrt(max(w, 1) / u))
//   one_cycle         straight from P / start_div at u = 1 to P at u = w, then straight to P / (start_div final_div) at u = T: PyTorch's
//                     OneCycleLR with anneal_strategy "linear" and pct_start w / T (Smith and Topin, 2019, "Super-convergence")
// Beyond T, linear, cosine and one_cycle keep their last rate. A warm-up longer than the run just ends with it, below P.
#pragma once
#include <cstdint>

#include "framework/config/section.h"

namespace tapeformer::optim {

enum class ScheduleType { constant, linear, cosine, one_cycle, inverse_sqrt };

struct ScheduleSettings {
  ScheduleType type = ScheduleType::constant;
  int64_t warmup = 0;
  double min_rate = 0;                     // `min_lr`; linear, cosine, inverse_sqrt
  double start_div = 25, final_div = 1e4;  // one_cycle
};

// Reads the section `schedule`; `peak` is `optim.lr`, which min_lr may not exceed.
ScheduleSettings read_schedule_settings(config::Section schedule, double peak);

// True where the rate depends on how long the run is, so that a duration given only as a time is not enough.
bool depends_on_total(const ScheduleSettings& settings);

// The rate of update `update` (from 1) of `total_updates` (ignored unless depends_on_total).
double rate(const ScheduleSettings& settings, double peak, int64_t update, int64_t total_updates);

}  // namespace tapeformer::optim
