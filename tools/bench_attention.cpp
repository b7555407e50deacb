// SPDX-License-Identifier: Apache-2.0
// `tapeformer bench attention`: one attention layer alone, of each variant at each length: time forward and backward, memory, arithmetic.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>

#include "framework/core/buffer.h"
#include "framework/core/random.h"
#include "framework/io/csv.h"
#include "framework/io/durable_file.h"
#include "framework/io/json_lines.h"
#include "framework/kernels/peak.h"
#include "models/attention/layers.h"
#include "tools/attention_names.h"
#include "tools/bench_attention.h"
#include "tools/experiment.h"
#include "tools/quantile.h"
#include "tools/standard_output.h"
#include "tools/svg_plot.h"

namespace tapeformer::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t longest = 1 << 20;  // rows, and what else a size may be

struct AttentionOptions {
  std::vector<std::string> overrides, variants{"all"};
  std::vector<int64_t> lengths{1024, 4096, 16384, 65536};
  int64_t dim = 64, heads = 2, batch = 1;
  double limit = 5;  // seconds of one forward and backward
  std::string csv, picture;
  bool json = false;
};

struct Cell {
  std::string variant;
  int64_t length = 0;
  double forward_ms = 0, backward_ms = 0, flops = 0;
  int64_t peak_bytes = 0;
  std::string note;  // why it was not measured
  double total_ms() const { return forward_ms + backward_ms; }
  double flops_per_s() const { return flops / total_ms() * 1e3; }
};

struct Settings {
  models::ModelSettings model;
  train::TrainSettings train;
};

// What a variant is made of and where it runs, as a config would have it that says nothing of data.
Settings settings_of(const AttentionOptions& o, const std::string& variant, Log& log) {
  std::vector<std::string> overrides{fmt::format("model.dim={}", o.dim), "model.layers=1", "model.dropout=0",
                                     fmt::format("model.attention.heads={}", o.heads)};
  overrides.insert(overrides.end(), o.overrides.begin(), o.overrides.end());
  overrides.push_back("model.attention.type=" + variant);
  config::Document document = config::Document::from_text("{}\n", "bench attention", overrides);
  Settings settings{models::read_model_settings(document.root()),
                    train::read_train_settings(document.root(), data::Task::classification, true)};
  for (const std::string& warning : document.finish()) log.write(LogLevel::warn, warning);
  // The sizes that all cells share are options: what is measured is what the table says.
  if (settings.model.dim != o.dim)
    fail(ExitCode::usage, "'model.dim' is {}, --dim is {}: say the width with --dim", settings.model.dim, o.dim);
  if (settings.model.attention.heads != o.heads)
    fail(ExitCode::usage, "'model.attention.heads' is {}, --heads is {}: say the heads with --heads", settings.model.attention.heads,
         o.heads);
  return settings;
}

Tensor random_rows(int64_t rows, int64_t columns) {
  Tensor x(Dtype::f32, {rows, columns});
  const Draw draw{random_key(1, "bench", "rows"), 0, 0};
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      x.data<float>()[r * columns + c] = static_cast<float>(draw.gaussian(static_cast<uint32_t>(r), static_cast<uint32_t>(c)));
  return x;
}

double milliseconds_since(Clock::time_point began) { return std::chrono::duration<double, std::milli>(Clock::now() - began).count(); }

// One forward and one backward pass, as in training.
std::pair<double, double> pass(models::Attention& attention, const Execution& on, const Tensor& rows, const Packing& packing,
                               uint32_t step) {
  Tape tape(on);
  Context context{.on = on, .tape = &tape, .mode = Mode::train, .seed = 1, .step = step};
  const Variable x{rows, tape.record("input", [](Tape&, const Tensor&) {})};
  const auto began = Clock::now();
  const Variable y = attention.forward(context, x, packing, {.norm = nullptr, .residual = x}).x;
  const double forward = milliseconds_since(began);
  const auto turned = Clock::now();
  tape.backward(y);
  return {forward, milliseconds_since(turned)};
}

// Medians of as many passes as a second holds, five at most, after one that warms up; the memory is that of one pass.
void measure(Cell& cell, models::Attention& attention, const Execution& on, const AttentionOptions& o, int64_t length) {
  const Packing packing(std::vector<int32_t>(static_cast<size_t>(o.batch), static_cast<int32_t>(length)),
                        std::vector<uint32_t>(static_cast<size_t>(o.batch)));
  const Tensor rows = random_rows(packing.rows(), o.dim);
  uint32_t step = 1;
  pass(attention, on, rows, packing, step++);
  const uint64_t before = allocator_statistics().bytes_in_use;
  reset_peak_bytes();
  std::vector<double> forward, backward;
  const auto began = Clock::now();
  while (forward.empty() || (forward.size() < 5 && milliseconds_since(began) < 1000)) {
    const auto [f, b] = pass(attention, on, rows, packing, step++);
    forward.push_back(f);
    backward.push_back(b);
  }
  cell.peak_bytes = static_cast<int64_t>(allocator_statistics().peak_bytes - before);
  cell.forward_ms = median(std::move(forward));
  cell.backward_ms = median(std::move(backward));
}

// Forward and backward: the projections, a product of [T,C] with a [C,C] each, and what the variant says of itself.
double flops_of(models::Attention& attention, const AttentionOptions& o, int64_t length) {
  const models::AttentionCost own = attention.cost(std::vector<int32_t>(static_cast<size_t>(o.batch), static_cast<int32_t>(length)));
  return own.forward_flops + own.backward_flops + 6.0 * attention.projections() * static_cast<double>(o.batch * length * o.dim * o.dim);
}

// All lengths of one variant, the shortest first: a longer one is left out when the arithmetic says that it would take too long.
std::vector<Cell> measure_variant(const AttentionOptions& o, const std::string& variant, const Execution& on, Log& log) {
  std::vector<Cell> cells;
  const Cell* last = nullptr;
  cells.reserve(o.lengths.size());
  for (const int64_t length : o.lengths) {
    Cell& cell = cells.emplace_back(Cell{.variant = variant, .length = length});
    try {
      const models::ModelSettings settings = settings_of(o, variant, log).model;
      const auto attention = models::make_attention({.seed = 1, .dtype = Dtype::f32}, "encoder.layers.0.attention",
                                                    {.dim = settings.dim, .max_length = length}, settings.attention);
      const int64_t rows = length + settings.attention.extra_rows.count;
      cell.flops = flops_of(*attention, o, rows);
      const double expected = last ? last->total_ms() / 1e3 * cell.flops / last->flops : 0;
      if (expected > o.limit) {
        cell.note = fmt::format("left out: would take about {:.0f} s", expected);
        continue;
      }
      measure(cell, *attention, on, o, rows);
      last = &cell;
      log.info("{} at {}: {:.1f} ms", variant, length, cell.total_ms());
    } catch (const Error& e) {
      if (e.code() == ExitCode::internal) throw;
      cell.note = first_fault(e.what());
    }
  }
  return cells;
}

std::string text_of(const std::vector<Cell>& cells, double peak) {
  std::vector<std::vector<std::string>> rows{
      {"attention", "length", "forward ms", "backward ms", "peak memory", "GFLOP", "GFLOP/s", "of peak"}};
  std::vector<std::string> notes{""};
  for (const Cell& c : cells) {
    notes.push_back(printable(c.note));
    const bool measured = c.note.empty();
    const auto number = [&](const char* format, double x) { return measured ? fmt::format(fmt::runtime(format), x) : std::string("-"); };
    rows.push_back({c.variant, fmt::format("{}", c.length), number("{:.2f}", c.forward_ms), number("{:.2f}", c.backward_ms),
                    measured ? bytes_text(static_cast<double>(c.peak_bytes)) : "-",
                    c.flops > 0 ? fmt::format("{:.3g}", c.flops / 1e9) : "-", number("{:.1f}", c.flops_per_s() / 1e9),
                    number("{:.0f} %", 100 * c.flops_per_s() / peak)});
  }
  return aligned(rows, notes);
}

std::string csv_of(const std::vector<Cell>& cells, const AttentionOptions& o, double peak) {
  std::string out = "attention,length,batch,dim,heads,forward_ms,backward_ms,peak_bytes,flops,flops_per_s,share_of_peak,note\n";
  for (const Cell& c : cells) {
    out += fmt::format("{},{},{},{},{},", c.variant, c.length, o.batch, o.dim, o.heads);
    if (c.note.empty())
      out += fmt::format("{:.4f},{:.4f},{},{},{:.6g},{:.4f},", c.forward_ms, c.backward_ms, c.peak_bytes, io::json_number(c.flops),
                         c.flops_per_s(), c.flops_per_s() / peak);
    else out += fmt::format(",,,{},,,", c.flops > 0 ? io::json_number(c.flops) : "");
    out += io::csv_field(c.note) + "\n";
  }
  return out;
}

std::string json_of(const std::vector<Cell>& cells, const AttentionOptions& o, double peak, int threads) {
  nlohmann::ordered_json j{{"batch", o.batch}, {"dim", o.dim}, {"heads", o.heads}, {"threads", threads}, {"peak_flops_per_s", peak}};
  j["cells"] = nlohmann::ordered_json::array();
  for (const Cell& c : cells) {
    nlohmann::ordered_json one{{"attention", c.variant}, {"length", c.length}, {"flops", c.flops}};
    if (c.note.empty())
      one.update({{"forward_ms", c.forward_ms},
                  {"backward_ms", c.backward_ms},
                  {"peak_bytes", c.peak_bytes},
                  {"flops_per_s", c.flops_per_s()},
                  {"share_of_peak", c.flops_per_s() / peak}});
    else one["note"] = c.note;
    j["cells"].push_back(std::move(one));
  }
  return j.dump(2) + "\n";
}

std::string picture_of(const std::vector<Cell>& cells, const AttentionOptions& o) {
  Plot plot{fmt::format("One attention layer, forward and backward: {} wide, {} heads, batch {}", o.dim, o.heads, o.batch),
            "rows of a sequence",
            "milliseconds",
            {}};
  for (const Cell& c : cells) {
    if (plot.curves.empty() || plot.curves.back().name != c.variant) plot.curves.push_back({c.variant, {}});
    if (c.note.empty()) plot.curves.back().points.emplace_back(static_cast<double>(c.length), c.total_ms());
  }
  return log_log_svg(plot);
}

ExitCode run(Command& command, AttentionOptions o) {
  const std::vector<std::string> names = attention_names("--attention", o.variants);
  std::sort(o.lengths.begin(), o.lengths.end());
  o.lengths.erase(std::unique(o.lengths.begin(), o.lengths.end()), o.lengths.end());
  for (auto& flag : command.flag_overrides()) o.overrides.push_back(std::move(flag));
  // A key that is wrong for every variant is one error; what only one cannot do is a note in its rows.
  Log silent(LogLevel::off);
  const Settings settings = settings_of(o, std::string(models::attention_variants().front().name), silent);
  const auto threads = make_threads(settings.train);
  const double peak = kernels::measure_peak(*threads).flops_per_s;
  std::vector<Cell> cells;
  for (const std::string& name : names)
    for (Cell& cell : measure_variant(o, name, {settings.train.device, threads.get()}, command.log)) cells.push_back(std::move(cell));
  if (std::all_of(cells.begin(), cells.end(), [](const Cell& c) { return !c.note.empty(); }))
    fail(ExitCode::usage, "nothing could be measured: {}: {}", cells[0].variant, cells[0].note);
  if (!o.csv.empty()) io::write_output(o.csv, csv_of(cells, o, peak));
  if (!o.picture.empty()) io::write_output(o.picture, picture_of(cells, o));
  return print_result(o.json ? json_of(cells, o, peak, threads->threads()) : text_of(cells, peak));
}

// 4k is 4096 rows, as lengths are named in the field. What is no number of them is left as it is, for the check that follows.
std::string in_full(const std::string& word) {
  int64_t thousands = 0;
  const char* end = word.data() + word.size();
  const auto read = std::from_chars(word.data(), end, thousands);
  const bool is_thousands = read.ec == std::errc() && read.ptr + 1 == end && (*read.ptr == 'k' || *read.ptr == 'K');
  return is_thousands && thousands >= 0 && thousands <= longest / 1024 ? std::to_string(thousands * 1024) : word;
}

}  // namespace

void add_bench_attention(const Verb& bench, Command& command) {
  auto o = std::make_shared<AttentionOptions>();
  const Verb sub = bench.verb("attention", "One attention layer alone, of each variant at each length");
  sub.option("OVERRIDES", o->overrides, "Of the variants' settings: model.attention.local.left=64");
  sub.option("--attention,--variants", o->variants, "all, or a list: full,local,linear").list();
  sub.option("--lengths", o->lengths, "Rows of a sequence: 1k,4k,16k,64k, where 1k is 1024").list().rewrite(in_full).range(1, longest);
  sub.option("--dim", o->dim, "Width of a row").range(1, longest);
  sub.option("--heads", o->heads, "Heads; they divide the width").range(1, longest);
  sub.option("--batch", o->batch, "Sequences").range(1, longest);
  sub.option("--limit", o->limit, "Seconds of a forward and backward pass beyond which a length is left out").range_of_reals(0.001, 1e6);
  sub.option("--csv", o->csv, "Write the table to this file");
  sub.option("--picture", o->picture, "Write curves of time over length to this SVG file");
  sub.flag("--json", o->json, "Print JSON");
  sub.runs([&command, o] { return run(command, *o); });
}

}  // namespace tapeformer::tools
