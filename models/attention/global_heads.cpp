// SPDX-License-Identifier: Apache-2.0
#include "models/attention/global_heads.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "framework/ops/add.h"
#include "framework/ops/attention.h"
#include "framework/ops/columns.h"
#include "models/attention/causal_plan.h"
#include "models/attention/dense.h"
#include "models/attention/head_attention.h"
#include "models/attention/interval_sets.h"
#include "models/attention/per_head.h"

namespace tapeformer::models {

void check_global_rows(config::Section& section, const std::vector<int>& rows, const Choice& choice) {
  if (choice.layer.causal && std::any_of(rows.begin(), rows.end(), [](int place) { return place < 0; }))
    section.fault("rows",
                  fmt::format("'{}' counts from the end, but '{}' is true: a row would see other rows once the sequence has grown",
                              section.path("rows"), choice.causal_key),
                  "count from the start: 0 is the first row");
}

GlobalHeads::GlobalHeads(const nn::Builder& build, const HeadSettings& s, const GlobalPattern& pattern)
    : PlannedHeads(s), pattern_(pattern) {
  if (pattern_.own_projections)
    for (const char* part : {"query", "key", "value"}) own_.push_back(start(build, part));
}

// The group's rows of what the layer's own projection starts from (as allenai/longformer converts its models).
GlobalHeads::Projection GlobalHeads::start(const nn::Builder& build, const std::string& part) const {
  const HeadSettings& s = settings();
  const int64_t rows = s.heads * s.head_dim;
  const std::string name = s.name + ".global_" + part;
  Projection p{build.constant(name + ".weight", {rows, s.layer.dim}, 0), build.constant(name + ".bias", {rows}, 0)};
  const int64_t first_row = int64_t{s.first_head} * s.head_dim;
  p.weight.value.copy_from(first_projection(build, s.layer_name, part, s.layer.dim).rows(first_row, rows));
  p.weight.copy_of = {fmt::format("{}.{}.weight", s.layer_name, part), first_row};
  p.bias.copy_of = {fmt::format("{}.{}.bias", s.layer_name, part), first_row};
  return p;
}

// Asked row by row, apart from the list that plans are made of.
bool GlobalHeads::is_global(int32_t n, int32_t i) const {
  const int32_t own = i - pattern_.skipped;
  return own >= 0 && (own < pattern_.count || std::any_of(pattern_.rows.begin(), pattern_.rows.end(),
                                                          [&](int place) { return place == own || int64_t{place} + n == i; }));
}

bool GlobalHeads::in_pattern(int32_t n, int head, int32_t i, int32_t j) const {
  const int64_t stride = of_head(pattern_.stride, settings(), head), distance = int64_t{j} - i;
  const bool near = distance % stride == 0 && distance >= -stride * pattern_.left && distance <= stride * pattern_.right;
  return near || is_global(n, i) || is_global(n, j);
}

std::vector<int32_t> GlobalHeads::global_rows(int32_t n) const {
  const int32_t own = std::max(0, n - pattern_.skipped);
  std::vector<int32_t> out(static_cast<size_t>(std::min(pattern_.count, own)));
  std::iota(out.begin(), out.end(), pattern_.skipped);
  for (const int place : pattern_.rows)
    if (place < own && place >= -own) out.push_back(pattern_.skipped + (place < 0 ? own + place : place));
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

TilePlan GlobalHeads::window_and_global(int32_t n, const std::vector<int32_t>& global, bool window) const {
  std::vector<Interval> runs;  // of global rows; the last place is for the window
  for (const int32_t i : global)
    if (runs.empty() || runs.back().end != i) runs.push_back({i, i + 1});
    else ++runs.back().end;
  runs.emplace_back();
  return interval_sets_plan(n, n, [&](int32_t i) {
    if (std::binary_search(global.begin(), global.end(), i)) return std::span<const Interval>();
    const int64_t first = std::max<int64_t>(0, int64_t{i} - pattern_.left), end = std::min<int64_t>(n, int64_t{i} + pattern_.right + 1);
    if (window) runs.back() = {static_cast<int32_t>(first), static_cast<int32_t>(end)};
    return std::span<const Interval>(runs);
  });
}

// As `stride` has it: rows are listed residue by residue, and among those of one residue the window is a band.
TilePlan GlobalHeads::dilated_window(int32_t n, const std::vector<int32_t>& global, int stride) const {
  ResidueRows listed = residue_rows(n, stride);
  std::vector<int32_t> holes;  // places of global rows
  for (int32_t at = 0; at < n; ++at)
    if (std::binary_search(global.begin(), global.end(), listed.rows[static_cast<size_t>(at)])) holes.push_back(at);
  std::vector<Interval> runs;
  TilePlan plan = interval_sets_plan(n, n, [&](int32_t at) -> const std::vector<Interval>& {
    runs.clear();
    if (std::binary_search(holes.begin(), holes.end(), at)) return runs;
    auto from = static_cast<int32_t>(std::max<int64_t>(listed.begin[static_cast<size_t>(at)], int64_t{at} - pattern_.left));
    const auto to = static_cast<int32_t>(std::min<int64_t>(listed.end[static_cast<size_t>(at)], int64_t{at} + pattern_.right + 1));
    for (auto hole = std::lower_bound(holes.begin(), holes.end(), from); hole != holes.end() && *hole < to; ++hole) {
      runs.push_back({from, *hole});
      from = *hole + 1;
    }
    runs.push_back({from, to});
    return runs;
  });
  plan.query_rows = listed.rows;
  plan.key_rows = std::move(listed.rows);
  return plan;
}

// The rows that are not global; then those that are, unless they have their own projections.
std::vector<TilePlan> GlobalHeads::parts(int32_t n, int head) const {
  const std::vector<int32_t> global = global_rows(n);
  const int stride = of_head(pattern_.stride, settings(), head);
  std::vector<TilePlan> out;
  if (stride > 1) out.push_back(dilated_window(n, global, stride));
  if (stride == 1 || !global.empty()) out.push_back(window_and_global(n, global, stride == 1));
  if (!own_.empty() || global.empty()) return out;
  out.push_back(full_plan(static_cast<int32_t>(global.size()), n));
  out.back().query_rows = global;
  return out;
}

HeadOutput GlobalHeads::forward(Context& context, HeadInput& input) {
  HeadOutput others = PlannedHeads::forward(context, input);
  if (own_.empty()) return others;
  const Packing& packing = input.packing;
  const auto gather = std::make_shared<RowMap>();  // the global rows of all sequences
  std::vector<std::vector<int32_t>> global;
  gather->rows = packing.rows();
  for (int b = 0; b < packing.sequences(); ++b) {
    global.push_back(global_rows(packing.length(b)));
    for (const int32_t i : global.back()) {
      gather->source.push_back(packing.offsets()[static_cast<size_t>(b)] + i);
      gather->begin.push_back(static_cast<int32_t>(gather->source.size()));
    }
  }
  if (gather->source.empty()) return others;
  return ops::add(context, others.o, of_global_rows(context, input, gather, global));
}

// o [T, heads * D] of the global rows, global[b] of sequence b, zeros elsewhere.
Variable GlobalHeads::of_global_rows(Context& context, HeadInput& input, const ops::RowMapPointer& gather,
                                     const std::vector<std::vector<int32_t>>& global) {
  const Packing& packing = input.packing;
  const HeadSettings& s = settings();
  ops::AttentionPart plans;
  std::vector<int32_t> counts;
  for (int b = 0; b < packing.sequences(); ++b) {
    const std::vector<int32_t>& rows = global[static_cast<size_t>(b)];
    counts.push_back(static_cast<int32_t>(rows.size()));
    TilePlan plan = full_plan(counts.back(), packing.length(b));
    plan.query_places = rows;  // a probability is dropped by its row's place in the sequence
    if (s.layer.causal) plan = causal_plan(plan, front());
    plans.push_back(std::make_shared<const TilePlan>(std::move(plan)));
  }
  const auto scatter = std::make_shared<RowMap>();
  scatter->rows = gather->result_rows();
  size_t next = 0;
  for (int32_t row = 0; row < packing.rows(); ++row) {
    if (next < gather->source.size() && gather->source[next] == row) scatter->source.push_back(static_cast<int32_t>(next++));
    scatter->begin.push_back(static_cast<int32_t>(scatter->source.size()));
  }
  const Variable q = input.layer.project(context, own_[0].weight, &own_[0].bias, gather);
  const Variable k = input.layer.project(context, own_[1].weight, &own_[1].bias);
  const int64_t width = s.heads * s.head_dim;
  const Variable v = input.plain_values ? ops::columns(context, input.projected, {{2 * width, width}})
                                        : input.layer.project(context, own_[2].weight, &own_[2].bias);
  const Variable o = ops::cross_attention(context, q, k, v, packing.with_lengths(counts), packing, plans, softmax());
  return ops::sparse_rows(context, o, scatter);
}

void GlobalHeads::visit(nn::Visitor& visitor) {
  for (Projection& p : own_) {
    visitor.parameter(p.weight);
    visitor.parameter(p.bias);
  }
}

double GlobalHeads::pairs(int32_t n) const {
  double sum = PlannedHeads::pairs(n);
  if (own_.empty()) return sum;
  for (const int32_t i : global_rows(n)) sum += settings().layer.causal ? std::max(i + 1, front()) : n;
  return sum;
}

AttentionCost GlobalHeads::cost(const std::vector<int32_t>& lengths) const {
  AttentionCost sum = PlannedHeads::cost(lengths);
  if (own_.empty()) return sum;
  const double weights = static_cast<double>(own_[0].weight.value.count());
  for (const int32_t n : lengths) {
    const double flops = 2 * weights * (2.0 * n + static_cast<double>(global_rows(n).size()));
    sum += {flops, 2 * flops, 4.0 * 2 * n * settings().heads * settings().head_dim};
  }
  return sum;
}

InputReaders GlobalHeads::input_readers() {
  InputReaders readers{std::in_place};
  for (const Projection& p : own_) readers->emplace_back(p.weight.value, p.bias.value);
  return readers;
}

// With projections of their own the global rows have other values too, so the head's output is no product with one matrix of values.
std::vector<double> GlobalHeads::dense_output(const DenseInput& in) const {
  if (own_.empty() || in.n == 0) return {};
  const auto n = static_cast<size_t>(in.n), d = static_cast<size_t>(in.head_dim), c = in.x.size() / n;
  const auto own = [&](size_t part) {
    const Tensor w = own_[part].weight.value.converted(Dtype::f64), b = own_[part].bias.value.converted(Dtype::f64);
    std::vector<double> y(n * d);
    for (size_t i = 0; i < n; ++i)
      for (size_t e = 0; e < d; ++e) {
        const size_t row = static_cast<size_t>(in.head - settings().first_head) * d + e;
        y[i * d + e] = b.data<double>()[row];
        for (size_t f = 0; f < c; ++f) y[i * d + e] += in.x[i * c + f] * w.data<double>()[row * c + f];
      }
    return y;
  };
  const std::vector<double> gq = own(0), gk = own(1), gv = own(2);
  const auto output = [&](std::span<const double> q, std::span<const double> k, std::span<const double> v) {
    const auto sees = [&](size_t i, size_t j) { return allowed(in.n, in.head, static_cast<int32_t>(i), static_cast<int32_t>(j)); };
    std::vector<double> weights = dense::softmax_weights(q, k, d, sees);
    dense::drop(weights, n, in.kept);
    return dense::weighted(weights, v, d);
  };
  std::vector<double> o = output(in.q(), in.k(), in.v());
  const std::vector<double> of_global = output(gq, gk, gv);
  for (size_t i = 0; i < n; ++i)
    if (is_global(in.n, static_cast<int32_t>(i))) std::copy_n(&of_global[i * d], d, &o[i * d]);
  return o;
}

}  // namespace tapeformer::models
