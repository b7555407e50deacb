// SPDX-License-Identifier: Apache-2.0
#include "tools/bench_profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/standard_output.h"

namespace tapeformer::tools {
namespace {

// One op and pass, for one step.
struct Row {
  std::string op;
  std::string_view pass;
  double calls = 0, ms = 0, flops = 0, bytes = 0;
  double flops_share = 0, bytes_share = 0;  // of the peaks
  double gflops_per_s() const { return ms > 0 ? flops / ms / 1e6 : 0; }
  double gbytes_per_s() const { return ms > 0 ? bytes / ms / 1e6 : 0; }
};

struct Summary {
  std::vector<Row> rows;
  Row total;
  double step_ms = 0, explained = 0;
};

Row row(const Profile::Line& line, const ProfileReport& r) {
  const double steps = static_cast<double>(r.steps);
  Row out{line.op,
          name_of(line.pass),
          static_cast<double>(line.calls) / steps,
          1000 * line.seconds / steps,
          line.work.flops / steps,
          line.work.bytes / steps};
  return out;
}

Summary summarise(const ProfileReport& r) {
  Summary s;
  s.total.op = "sum";
  for (const Profile::Line& line : r.profile.lines()) {
    s.rows.push_back(row(line, r));
    const Row& x = s.rows.back();
    s.total.calls += x.calls;
    s.total.ms += x.ms;
    s.total.flops += x.flops;
    s.total.bytes += x.bytes;
  }
  const auto shares = [&](Row& x) {
    if (r.peak.flops_per_s > 0) x.flops_share = 1e9 * x.gflops_per_s() / r.peak.flops_per_s;
    if (r.peak.bytes_per_s > 0) x.bytes_share = 1e9 * x.gbytes_per_s() / r.peak.bytes_per_s;
  };
  for (Row& x : s.rows) shares(x);
  shares(s.total);
  s.step_ms = 1000 * r.step_seconds / static_cast<double>(r.steps);
  s.explained = s.step_ms > 0 ? s.total.ms / s.step_ms : 0;
  return s;
}

std::vector<std::string> cells(const Row& x, double step_ms) {
  const auto percent = [](double share) { return fmt::format("{:.1f} %", 100 * share); };
  return {x.op,
          std::string(x.pass),
          fmt::format("{:.3f}", x.ms),
          percent(step_ms > 0 ? x.ms / step_ms : 0),
          fmt::format("{:.6g}", x.calls),
          fmt::format("{:.2f}", x.flops / 1e6),
          fmt::format("{:.2f}", x.bytes / 1e6),
          fmt::format("{:.1f}", x.gflops_per_s()),
          percent(x.flops_share),
          fmt::format("{:.1f}", x.gbytes_per_s()),
          percent(x.bytes_share)};
}

}  // namespace

std::string profile_text(const ProfileReport& r) {
  const Summary s = summarise(r);
  std::vector<std::vector<std::string>> rows{
      {"op", "pass", "ms", "of step", "calls", "MFLOP", "MB", "GFLOP/s", "of peak", "GB/s", "of memory"}};
  for (const Row& x : s.rows) rows.push_back(cells(x, s.step_ms));
  rows.push_back(cells(s.total, s.step_ms));
  return fmt::format(
      "peak of {} thread{}: {:.1f} GFLOP/s by multiply-adds, {:.1f} GB/s of memory (measured now)\n\n{}\n"
      "the lines explain {:.1f} % of the step's {:.3f} ms (mean); MFLOP and MB are the formulas', every array once\n",
      r.threads, r.threads == 1 ? "" : "s", r.peak.flops_per_s / 1e9, r.peak.bytes_per_s / 1e9, aligned(rows), 100 * s.explained,
      s.step_ms);
}

nlohmann::ordered_json profile_json(const ProfileReport& r) {
  using Json = nlohmann::ordered_json;
  const Summary s = summarise(r);
  const auto json = [](const Row& x) {
    return Json{{"op", x.op},
                {"pass", x.pass},
                {"ms", x.ms},
                {"calls", x.calls},
                {"flops", x.flops},
                {"bytes", x.bytes},
                {"gflops_per_s", x.gflops_per_s()},
                {"share_of_peak", x.flops_share},
                {"gbytes_per_s", x.gbytes_per_s()},
                {"share_of_memory", x.bytes_share}};
  };
  Json out{{"peak_gflops_per_s", r.peak.flops_per_s / 1e9},
           {"peak_gbytes_per_s", r.peak.bytes_per_s / 1e9},
           {"step_ms", s.step_ms},
           {"sum_ms", s.total.ms},
           {"explained", s.explained},
           {"rows", Json::array()}};
  for (const Row& x : s.rows) out["rows"].push_back(json(x));
  return out;
}

}  // namespace tapeformer::tools
