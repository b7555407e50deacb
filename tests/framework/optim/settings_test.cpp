// SPDX-License-Identifier: Apache-2.0
// The sections optim, schedule and averaging of a config: every key, defaults, and values that must be refused by name.
#include "framework/config/document.h"
#include "framework/optim/averaging.h"
#include "framework/optim/optimizer.h"
#include "framework/optim/schedule.h"
#include "tests/support/catch.h"

using namespace tapeformer;

namespace {

struct Everything {
  optim::OptimizerSettings optim;
  optim::ScheduleSettings schedule;
  optim::AveragingSettings averaging;
};

Everything read(const std::string& text) {
  config::Document document = config::Document::from_text(text, "test.yaml", {});
  config::Section root = document.root();
  Everything all;
  all.optim = optim::read_optimizer_settings(root.section("optim", "the optimiser"));
  all.schedule = optim::read_schedule_settings(root.section("schedule", "the learning rate"), all.optim.rate);
  all.averaging = optim::read_averaging_settings(root.section("averaging", "averaged weights"));
  document.finish();
  return all;
}

std::string refusal(const std::string& text) {
  try {
    read(text);
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::usage);
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("every key of optim, schedule and averaging is read", "[settings]") {
  const Everything s = read(
      "optim: {type: adam, lr: 0.5, betas: [0.8, 0.95], epsilon: 1.0e-6, weight_decay: 0.02, decay_all: true, clip_norm: 2, clip_value: "
      "3}\n"
      "schedule: {type: one_cycle, warmup: 1k, start_div: 10, final_div: 100}\n"
      "averaging: {decay: 0.99, from: 2k}\n");
  const Everything other = read("optim: {type: sgd, momentum: 0.7}\nschedule: {type: cosine, min_lr: 1.0e-5}\n");
  CHECK(s.optim.type == optim::OptimizerType::adam);
  CHECK(other.optim.type == optim::OptimizerType::sgd);
  CHECK(s.optim.rate == 0.5);
  CHECK(s.optim.beta1 == 0.8);
  CHECK(s.optim.beta2 == 0.95);
  CHECK(s.optim.epsilon == 1e-6);
  CHECK(other.optim.momentum == 0.7);
  CHECK(s.optim.weight_decay == 0.02);
  CHECK(s.optim.decay_all);
  CHECK(s.optim.clip_norm == 2);
  CHECK(s.optim.clip_value == 3);
  CHECK(s.schedule.type == optim::ScheduleType::one_cycle);
  CHECK(s.schedule.warmup == 1000);
  CHECK(other.schedule.min_rate == 1e-5);
  CHECK(s.schedule.start_div == 10);
  CHECK(s.schedule.final_div == 100);
  CHECK(s.averaging.decay == 0.99);
  CHECK(s.averaging.from == 2000);
}

TEST_CASE("an empty config gives adamw, a constant rate and no averaging", "[settings]") {
  const Everything s = read("optim: {lr: 1.0e-3}\n");
  CHECK(s.optim.type == optim::OptimizerType::adamw);
  CHECK(s.optim.beta1 == 0.9);
  CHECK(s.optim.beta2 == 0.999);
  CHECK(s.optim.clip_norm == 0);
  CHECK(s.schedule.type == optim::ScheduleType::constant);
  CHECK(s.schedule.warmup == 0);
  CHECK(s.averaging.decay == 0);
}

TEST_CASE("values out of range and wrong combinations are refused by name", "[settings]") {
  const std::vector<std::pair<std::string, std::string>> table{
      {"optim: {type: adamv}", "adamw"},
      {"optim: {lr: 0}", "optim.lr"},
      {"optim: {lr: -1}", "optim.lr"},
      {"optim: {betas: [0.9]}", "optim.betas"},
      {"optim: {betas: [0.9, 0.99, 0.999]}", "optim.betas"},
      {"optim: {betas: [0.9, 1.0]}", "optim.betas"},
      {"optim: {epsilon: 0}", "optim.epsilon"},
      {"optim: {momentum: 1}", "optim.momentum"},
      {"optim: {weight_decay: -0.1}", "optim.weight_decay"},
      {"optim: {clip_norm: -1}", "optim.clip_norm"},
      {"optim: {clip_value: -1}", "optim.clip_value"},
      {"schedule: {type: cosin}", "cosine"},
      {"schedule: {warmup: -1}", "schedule.warmup"},
      {"schedule: {start_div: 0.5}", "schedule.start_div"},
      {"schedule: {min_lr: -1}", "schedule.min_lr"},
      {"averaging: {decay: 1}", "averaging.decay"},
      {"averaging: {from: -1}", "averaging.from"},
      {"optim: {type: sgd, betas: [0.8, 0.9]}", "'optim.betas' has no meaning with 'optim.type: sgd'"},
      {"optim: {type: sgd, epsilon: 1.0e-6}", "'optim.epsilon' has no meaning with 'optim.type: sgd'"},
      {"optim: {type: adam, momentum: 0.8}", "'optim.momentum' has no meaning with 'optim.type: adam'"},
      {"optim: {momentum: 0.8}", "'optim.momentum' has no meaning with 'optim.type: adamw'"},
      {"optim: {weight_decay: 0, decay_all: true}", "'optim.decay_all' has no meaning with 'optim.weight_decay: 0"},
      {"schedule: {type: cosine, start_div: 10}", "'schedule.start_div' has no meaning with 'schedule.type: cosine'"},
      {"schedule: {type: linear, final_div: 10}", "'schedule.final_div' has no meaning with 'schedule.type: linear'"},
      {"schedule: {min_lr: 1.0e-5}", "'schedule.min_lr' has no meaning with 'schedule.type: constant'"},
      {"averaging: {from: 100}", "'averaging.from' has no meaning with 'averaging.decay: 0"},
  };
  for (const auto& [text, named] : table) {
    INFO(text);
    const std::string report = refusal(text);
    INFO(report);
    CHECK(report.find(named) != std::string::npos);
  }
  const std::string both = refusal("optim: {lr: 0.1}\nschedule: {type: linear, min_lr: 0.2}\n");
  CHECK(both.find("schedule.min_lr") != std::string::npos);
  CHECK(both.find("optim.lr") != std::string::npos);
}
