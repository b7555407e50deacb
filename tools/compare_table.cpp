// SPDX-License-Identifier: Apache-2.0
// The table of `tapeformer compare` as text, CSV and JSON.
#include <cmath>
#include <nlohmann/json.hpp>

#include "framework/io/csv.h"
#include "framework/io/json_lines.h"
#include "tools/compare.h"
#include "tools/standard_output.h"

namespace tapeformer::tools {
namespace {

using Json = nlohmann::ordered_json;

// One row: over the seeds that are done.
struct Row {
  std::string status, reason;
  int64_t seeds = 0;
  std::optional<double> mean, error;  // of the score, and its standard error: the deviation over the seeds / sqrt(their number)
  std::optional<double> margin;       // how far the mean, two standard errors nearer, is beyond the baseline
  std::optional<double> tokens_per_s, peak_bytes;
};

std::optional<double> mean_of(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

std::optional<double> standard_error(const std::vector<double>& values) {
  if (values.size() < 2) return std::nullopt;
  const double mean = *mean_of(values), n = static_cast<double>(values.size());
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / (n - 1) / n);
}

Row row_of(const Comparison& c, const VariantResult& v) {
  Row row;
  std::vector<double> scores, rates;
  for (const RunResult& run : v.runs) {
    if (!run.failure.empty()) row.reason = fmt::format("seed {}: {}", run.seed, run.failure);
    if (!run.done) continue;
    ++row.seeds;
    if (const auto score = value_in(run.metrics, c.metric)) scores.push_back(*score);
    if (run.tokens_per_s) rates.push_back(*run.tokens_per_s);
    if (run.peak_bytes) row.peak_bytes = std::max(row.peak_bytes.value_or(0), *run.peak_bytes);
  }
  row.mean = mean_of(scores);
  row.error = standard_error(scores);
  row.tokens_per_s = mean_of(rates);
  const auto base = value_in(c.baseline.metrics, c.metric);
  if (row.mean && row.error && base) {
    const double sign = train::higher_is_better(c.metric) ? 1 : -1;
    row.margin = sign * (*row.mean - *base) - 2 * *row.error;
  }
  row.status = !row.reason.empty() ? "failed" : row.seeds == static_cast<int64_t>(v.runs.size()) ? "done" : "unfinished";
  if (!v.refusal.empty()) {
    row.status = "refused";
    row.reason = v.refusal;
  }
  return row;
}

std::string text(const std::optional<double>& x) { return x ? fmt::format("{:.4f}", *x) : "-"; }
std::string exact(const std::optional<double>& x) { return x ? io::json_number(*x) : ""; }
Json json(const std::optional<double>& x) { return x && std::isfinite(*x) ? Json(*x) : Json(nullptr); }

Json json_of(const RunResult& run) {
  Json j{{"seed", run.seed}, {"directory", run.directory.string()}, {"done", run.done}};
  if (!run.failure.empty()) j.update({{"failure", run.failure}, {"exit_code", run.exit_code}});
  if (!run.done) return j;
  j["step"] = run.step;
  for (const train::Metric& m : run.metrics) j[m.name] = json(m.value);
  j["tokens_per_s"] = json(run.tokens_per_s);
  j["peak_bytes"] = json(run.peak_bytes);
  return j;
}

Json metrics_json(const std::vector<train::Metric>& metrics) {
  Json j = Json::object();
  for (const train::Metric& m : metrics) j[m.name] = json(m.value);
  return j;
}

}  // namespace

std::string table_text(const Comparison& c) {
  std::vector<std::vector<std::string>> rows{
      {"attention", c.metric, "s.e.", "seeds", "margin", "tokens/s", "peak memory", "parameters", "pairs"}};
  std::vector<std::string> reasons{""};
  for (const VariantResult& v : c.variants) {
    const Row r = row_of(c, v);
    const bool built = v.refusal.empty();
    rows.push_back({v.variant, text(r.mean), text(r.error), built ? fmt::format("{}/{}", r.seeds, v.runs.size()) : "-", text(r.margin),
                    r.tokens_per_s ? fmt::format("{:.0f}", *r.tokens_per_s) : "-", r.peak_bytes ? bytes_text(*r.peak_bytes) : "-",
                    built ? fmt::format("{}", v.parameters) : "-", built ? fmt::format("{:.1f} %", 100 * v.pairs) : "-"});
    reasons.push_back(r.reason.empty() ? "" : r.status + ": " + printable(r.reason));
  }
  rows.push_back(
      {"always " + printable(c.baseline.answer), text(value_in(c.baseline.metrics, c.metric)), "-", "-", "-", "-", "-", "-", "-"});
  reasons.push_back("");
  return aligned(rows, reasons) +
         fmt::format(
             "{} of the {} part: mean and standard error over the seeds; margin: mean less two standard errors, against always "
             "answering {}\n",
             c.metric, c.split, printable(c.baseline.answer));
}

std::string table_csv(const Comparison& c) {
  std::string out = fmt::format("attention,status,{},standard_error,seeds,margin,tokens_per_s,peak_bytes,parameters,pairs", c.metric);
  for (const uint64_t seed : c.seeds) out += fmt::format(",{}_seed_{}", c.metric, seed);
  out += ",reason\n";
  for (const VariantResult& v : c.variants) {
    const Row r = row_of(c, v);
    out += fmt::format("{},{},{},{},{},{},{},{},", v.variant, r.status, exact(r.mean), exact(r.error), r.seeds, exact(r.margin),
                       exact(r.tokens_per_s), exact(r.peak_bytes));
    out += v.refusal.empty() ? fmt::format("{},{}", v.parameters, exact(v.pairs)) : ",";
    for (const RunResult& run : v.runs) out += "," + (run.done ? exact(value_in(run.metrics, c.metric)) : "");
    out += "," + io::csv_field(r.reason) + "\n";
  }
  return out + fmt::format("{},baseline,{},,,,,,,{},\n", io::csv_field("always " + c.baseline.answer),
                           exact(value_in(c.baseline.metrics, c.metric)), std::string(c.seeds.size(), ','));
}

std::string table_json(const Comparison& c) {
  Json j{{"config", c.config},
         {"overrides", c.overrides},
         {"split", c.split},
         {"metric", c.metric},
         {"seeds", c.seeds},
         {"data_fingerprint", c.fingerprint},
         {"baseline", {{"answer", c.baseline.answer}, {"metrics", metrics_json(c.baseline.metrics)}}}};
  j["variants"] = Json::array();
  for (const VariantResult& v : c.variants) {
    const Row r = row_of(c, v);
    Json one{{"attention", v.variant}, {"status", r.status}};
    if (!r.reason.empty()) one["reason"] = r.reason;
    if (v.refusal.empty()) {
      one.update({{"mean", json(r.mean)}, {"standard_error", json(r.error)}, {"margin", json(r.margin)}});
      one.update({{"tokens_per_s", json(r.tokens_per_s)}, {"peak_bytes", json(r.peak_bytes)}});
      one.update({{"parameters", v.parameters}, {"pairs", v.pairs}, {"runs", Json::array()}});
      for (const RunResult& run : v.runs) one["runs"].push_back(json_of(run));
    }
    j["variants"].push_back(std::move(one));
  }
  return j.dump(2) + "\n";
}

}  // namespace tapeformer::tools
