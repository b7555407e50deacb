// SPDX-License-Identifier: Apache-2.0
// Softmax attention on the cpu device: cuts the batch into units (a head of a sequence, a run of tiles), gathers small units into tasks,
// and deals the tasks to the threads, the costliest first. Units depend on a sequence's own length and plan only, and each owns what it
// writes, so neither threads nor batch mates change a byte.
#include "framework/kernels/attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "framework/core/buffer.h"
#include "framework/core/parallel.h"
#include "framework/kernels/cpu/simd/attention.h"

namespace tapeformer::kernels {
namespace {

static_assert(TilePlan::tile == simd::attention_tile);

constexpr int run_tiles = 16;                // at most, unless the partial gradients of the queries would take more than
constexpr int most_partials = 8;             // this many times their size
constexpr int64_t grain = int64_t{1} << 19;  // pairs * head_dim of a task made of several units

struct Unit {
  int sequence, head, first, last;
  int met_first, met_last;  // tiles of the other side
  int64_t cost;
  int64_t group;  // number of the (sequence, head) among all
  int64_t part;   // where its partial gradient begins, in floats; -1: it is the only unit of its group
};

// The units of a batch in the order of (sequence, head, run), and the tasks: ranges of `order`.
struct Units {
  std::vector<Unit> units;
  std::vector<int32_t> order;
  std::vector<int32_t> tasks;  // [tasks + 1]
  int64_t part_floats = 0;

  int64_t count() const { return static_cast<int64_t>(tasks.size()) - 1; }
};

enum class Side { queries, keys };

// The runs of one sequence: units without head. Runs are equal up to a tile.
std::vector<Unit> runs_of(const TilePlan& plan, Side side, int sequence) {
  const TileList& list = side == Side::queries ? plan.by_query : plan.by_key;
  const int tiles = TilePlan::tiles_of(side == Side::queries ? plan.queries : plan.keys);
  const int others = TilePlan::tiles_of(side == Side::queries ? plan.keys : plan.queries);
  const auto cut = [&](int runs) {
    std::vector<Unit> out;
    for (int r = 0; r < runs; ++r) {
      Unit u{sequence, 0, tiles * r / runs, tiles * (r + 1) / runs, others, 0, 0, 0, -1};
      for (int t = u.first; t < u.last; ++t) {
        const auto begin = static_cast<size_t>(list.begin[static_cast<size_t>(t)]),
                   end = static_cast<size_t>(list.begin[static_cast<size_t>(t) + 1]);
        if (begin == end) continue;
        u.met_first = std::min(u.met_first, list.entries[begin].tile);
        u.met_last = std::max(u.met_last, list.entries[end - 1].tile + 1);
      }
      u.met_first = std::min(u.met_first, u.met_last);
      const int64_t entries = list.begin[static_cast<size_t>(u.last)] - list.begin[static_cast<size_t>(u.first)];
      const int64_t edge = std::min<int64_t>(TilePlan::tile, std::max(plan.queries, plan.keys));
      u.cost = entries * edge * edge + edge * (u.last - u.first);
      out.push_back(u);
    }
    return out;
  };
  std::vector<Unit> out = cut((tiles + run_tiles - 1) / run_tiles);
  int64_t met = 0;
  for (const Unit& u : out) met += u.met_last - u.met_first;
  return side == Side::keys && met > int64_t{most_partials} * others ? cut(most_partials) : out;
}

Units make_units(const AttentionCall<float>& call, Side side) {
  Units out;
  const int64_t width = simd::attention_width(call.head_dim);
  int64_t group = 0;
  for (int b = 0; b < call.queries->sequences(); ++b) {
    std::vector<Unit> runs;
    for (int h = 0; h < call.heads; ++h, ++group) {
      if (h == 0 || call.plan_for_each_head()) runs = runs_of(call.plan(b, h), side, b);
      for (Unit u : runs) {
        u.head = h;
        u.group = group;
        if (side == Side::keys && runs.size() > 1) {
          u.part = out.part_floats;
          out.part_floats += int64_t{u.met_last - u.met_first} * TilePlan::tile * width;
        }
        out.order.push_back(static_cast<int32_t>(out.units.size()));
        out.units.push_back(u);
      }
    }
  }
  std::stable_sort(out.order.begin(), out.order.end(),
                   [&](int32_t x, int32_t y) { return out.units[static_cast<size_t>(x)].cost > out.units[static_cast<size_t>(y)].cost; });
  int64_t cost = grain;
  for (size_t i = 0; i < out.order.size(); ++i) {
    const int64_t own = out.units[static_cast<size_t>(out.order[i])].cost * std::max(call.head_dim, 16);
    if (cost + own > grain) {
      out.tasks.push_back(static_cast<int32_t>(i));
      cost = 0;
    }
    cost += own;
  }
  out.tasks.push_back(static_cast<int32_t>(out.order.size()));
  return out;
}

simd::ConstRows rows_at(const View<const float>& v, int64_t row, int64_t column) { return {v.row(row) + column, v.stride}; }
simd::Rows rows_at(const View<float>& v, int64_t row, int64_t column) { return {v.row(row) + column, v.stride}; }

simd::AttentionUnit described(const AttentionCall<float>& call, const Unit& u, Side side, Write write) {
  const TilePlan& plan = call.plan(u.sequence, u.head);
  const TileList& list = side == Side::queries ? plan.by_query : plan.by_key;
  const int64_t row = call.queries->offsets()[static_cast<size_t>(u.sequence)], column = int64_t{u.head} * call.head_dim;
  const int64_t key_row = call.keys->offsets()[static_cast<size_t>(u.sequence)];
  simd::AttentionUnit out;
  out.queries = plan.queries;
  out.keys = plan.keys;
  out.query_rows = plan.query_rows.empty() ? nullptr : plan.query_rows.data();
  out.key_rows = plan.key_rows.empty() ? nullptr : plan.key_rows.data();
  out.query_places = plan.query_places.empty() ? out.query_rows : plan.query_places.data();
  out.key_places = plan.key_places.empty() ? out.key_rows : plan.key_places.data();
  out.head_dim = call.head_dim;
  out.first = u.first;
  out.last = u.last;
  out.met_first = u.met_first;
  out.met_last = u.met_last;
  out.begin = list.begin.data();
  out.entries = list.entries.data();
  out.first_key = plan.first_key.empty() ? nullptr : plan.first_key.data();
  out.end_key = plan.end_key.empty() ? nullptr : plan.end_key.data();
  out.masks = plan.masks.data();
  out.scale = static_cast<float>(call.scale);
  out.q = rows_at(call.q, row, column);
  out.k = rows_at(call.k, key_row, column);
  out.v = rows_at(call.v, key_row, column);
  out.add = write == Write::add;
  if (call.dropout.on())
    out.dropout = {call.dropout_keys[u.head], call.dropout.threshold, static_cast<float>(call.dropout.scale),
                   call.queries->sample_ids()[static_cast<size_t>(u.sequence)], call.dropout.step};
  return out;
}

// Calls clear(sequence, head) for the heads that missed(plan, sequence) names: rows that no unit writes.
template <class Missed, class Clear>
void clear_missed(ThreadPool& threads, const AttentionCall<float>& call, Missed missed, Clear clear) {
  std::vector<std::pair<int, int>> heads;
  for (int b = 0; b < call.queries->sequences(); ++b)
    for (int h = 0; h < call.heads; ++h)
      if (missed(call.plan(b, h), b)) heads.emplace_back(b, h);
  threads.run(static_cast<int64_t>(heads.size()),
              [&](int64_t i) { clear(heads[static_cast<size_t>(i)].first, heads[static_cast<size_t>(i)].second); });
}

// Zeros in the columns of head h of the rows of sequence b.
void clear(const View<float>& x, const Packing& packing, int b, int h, int head_dim) {
  for (int64_t r = packing.offsets()[static_cast<size_t>(b)]; r < packing.offsets()[static_cast<size_t>(b) + 1]; ++r)
    std::fill_n(x.row(r) + int64_t{h} * head_dim, head_dim, 0.f);
}

}  // namespace

template <>
void AttentionForward<float>::cpu(const Execution& on, const AttentionCall<float>& call, View<float> o, float* lse, Write write) {
  if (write == Write::overwrite)
    clear_missed(
        *on.threads, call, [&](const TilePlan& plan, int b) { return plan.queries < call.queries->length(b); },
        [&](int b, int h) {
          clear(o, *call.queries, b, h, call.head_dim);
          std::fill_n(lse + int64_t{h} * call.queries->rows() + call.queries->offsets()[static_cast<size_t>(b)], call.queries->length(b),
                      std::numeric_limits<float>::infinity());
        });
  const Units all = make_units(call, Side::queries);
  on.threads->run(all.count(), [&](int64_t task) {
    for (int32_t i = all.tasks[static_cast<size_t>(task)]; i < all.tasks[static_cast<size_t>(task) + 1]; ++i) {
      const Unit& u = all.units[static_cast<size_t>(all.order[static_cast<size_t>(i)])];
      const simd::AttentionUnit unit = described(call, u, Side::queries, write);
      const int64_t row = call.queries->offsets()[static_cast<size_t>(u.sequence)];
      simd::attention_forward(unit, rows_at(o, row, int64_t{u.head} * call.head_dim), lse + int64_t{u.head} * call.queries->rows() + row,
                              thread_scratch(simd::attention_forward_scratch(unit)));
    }
  });
}

template <>
void AttentionBackward<float>::cpu(const Execution& on, const AttentionCall<float>& call, View<const float> o, const float* lse,
                                   View<const float> d_o, View<float> dq, View<float> dk, View<float> dv, Write write) {
  if (write == Write::overwrite) {
    clear_missed(
        *on.threads, call, [&](const TilePlan& plan, int b) { return plan.queries < call.queries->length(b) || plan.keys == 0; },
        [&](int b, int h) { clear(dq, *call.queries, b, h, call.head_dim); });
    clear_missed(
        *on.threads, call, [&](const TilePlan& plan, int b) { return plan.keys < call.keys->length(b); },
        [&](int b, int h) {
          clear(dk, *call.keys, b, h, call.head_dim);
          clear(dv, *call.keys, b, h, call.head_dim);
        });
  }
  const Units all = make_units(call, Side::keys);
  const Storage memory = all.part_floats ? allocate(static_cast<size_t>(all.part_floats) * sizeof(float)) : Storage();
  float* const parts = reinterpret_cast<float*>(memory.get());
  std::vector<std::atomic<int>> done(all.units.empty() ? 0 : static_cast<size_t>(all.units.back().group) + 1);
  on.threads->run(all.count(), [&](int64_t task) {
    for (int32_t i = all.tasks[static_cast<size_t>(task)]; i < all.tasks[static_cast<size_t>(task) + 1]; ++i) {
      const auto at = static_cast<size_t>(all.order[static_cast<size_t>(i)]);
      const Unit& u = all.units[at];
      const simd::AttentionUnit unit = described(call, u, Side::keys, write);
      const int64_t row = call.queries->offsets()[static_cast<size_t>(u.sequence)], column = int64_t{u.head} * call.head_dim;
      const int64_t key_row = call.keys->offsets()[static_cast<size_t>(u.sequence)];
      const size_t need = simd::attention_backward_scratch(unit);
      const size_t own = u.part < 0 ? static_cast<size_t>(u.met_last - u.met_first) *
                                          static_cast<size_t>(TilePlan::tile * simd::attention_width(call.head_dim))
                                    : 0;
      float* const scratch = thread_scratch(need + own);
      float* const part = u.part < 0 ? scratch + need : parts + u.part;
      simd::attention_backward(unit, rows_at(o, row, column), lse + int64_t{u.head} * call.queries->rows() + row, rows_at(d_o, row, column),
                               rows_at(dk, key_row, column), rows_at(dv, key_row, column), part, scratch);
      if (u.part < 0) {
        const simd::AttentionPart only{part, u.met_first, u.met_last};
        simd::attention_sum_parts(unit, &only, 1, rows_at(dq, row, column));
        continue;
      }
      // Whoever finishes a head's last unit adds the parts, in their order.
      size_t first = at, end = at + 1;
      while (first > 0 && all.units[first - 1].group == u.group) --first;
      while (end < all.units.size() && all.units[end].group == u.group) ++end;
      if (done[static_cast<size_t>(u.group)].fetch_add(1, std::memory_order_acq_rel) + 1 < static_cast<int>(end - first)) continue;
      std::vector<simd::AttentionPart> in;
      for (size_t n = first; n < end; ++n) in.push_back({parts + all.units[n].part, all.units[n].met_first, all.units[n].met_last});
      simd::attention_sum_parts(unit, in.data(), static_cast<int>(in.size()), rows_at(dq, row, column));
    }
  });
}

}  // namespace tapeformer::kernels
