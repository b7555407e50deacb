// SPDX-License-Identifier: Apache-2.0
// Products of blocks on the cpu device. Where blocks of the result do not overlap, each is cut into pieces of its own; where some do, the
// result is cut by a fixed grid and a task adds all groups to its part in their order.
#include "framework/kernels/batched_product.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "framework/core/parallel.h"
#include "framework/kernels/cpu/blocks.h"
#include "framework/kernels/cpu/simd/product.h"

namespace tapeformer::kernels {
namespace {

constexpr int64_t strip_rows = 144, strip_columns = 128;  // of a piece: its operands fit the second-level cache
constexpr int64_t task_work = int64_t{1} << 18;           // multiply-adds below which pieces share a task

// A part of the block of c of one group, in rows and columns of c.
struct Piece {
  size_t group;
  int64_t row, rows, column, columns;
};

struct Tasks {
  std::vector<Piece> pieces;
  std::vector<size_t> begin{0};  // [tasks + 1]
};

int64_t depth(const BatchedProductCall& call, const ProductGroup& g) { return call.transpose_a ? g.a.rows : g.a.columns; }

Tasks cut_blocks(const BatchedProductCall& call) {
  Tasks out;
  int64_t work = 0;
  for (size_t g = 0; g < call.groups.size(); ++g) {
    const Block& c = call.groups[g].c;
    const int64_t rows = cpu::part_size(c.rows, strip_rows);
    for (int64_t r = 0; r < c.rows; r += rows)
      for (int64_t n = 0; n < c.columns; n += strip_columns) {
        out.pieces.push_back({g, c.row + r, std::min(rows, c.rows - r), c.column + n, std::min(strip_columns, c.columns - n)});
        work += out.pieces.back().rows * out.pieces.back().columns * (depth(call, call.groups[g]) + 8);
        if (work < task_work) continue;
        out.begin.push_back(out.pieces.size());
        work = 0;
      }
  }
  if (out.begin.back() < out.pieces.size()) out.begin.push_back(out.pieces.size());
  return out;
}

Tasks cut_grid(const BatchedProductCall& call) {
  Tasks out;
  const auto cell = [](const Piece& p) { return std::tuple(p.row / strip_rows, p.column / strip_columns); };
  for (size_t g = 0; g < call.groups.size(); ++g) {
    const Block& c = call.groups[g].c;
    const auto cut = [](int64_t from, int64_t end, int64_t step) { return std::min(end, (from / step + 1) * step) - from; };
    for (int64_t r = c.row, rows = 0; r < c.row + c.rows; r += rows) {
      rows = cut(r, c.row + c.rows, strip_rows);
      for (int64_t n = c.column, columns = 0; n < c.column + c.columns; n += columns) {
        columns = cut(n, c.column + c.columns, strip_columns);
        out.pieces.push_back({g, r, rows, n, columns});
      }
    }
  }
  std::ranges::stable_sort(out.pieces, {}, cell);
  for (size_t i = 1; i <= out.pieces.size(); ++i)
    if (i == out.pieces.size() || cell(out.pieces[i]) != cell(out.pieces[i - 1])) out.begin.push_back(i);
  return out;
}

simd::Product described(const BatchedProductCall& call, const Piece& p, View<const float> a, View<const float> b, View<float> c, bool add) {
  const ProductGroup& g = call.groups[p.group];
  const int64_t m = p.row - g.c.row, n = p.column - g.c.column;
  simd::Product out;
  out.M = static_cast<int>(p.rows);
  out.N = static_cast<int>(p.columns);
  out.K = static_cast<int>(depth(call, g));
  out.transpose_a = call.transpose_a;
  out.transpose_b = call.transpose_b;
  out.a = {call.transpose_a ? a.row(g.a.row) + g.a.column + m : a.row(g.a.row + m) + g.a.column, a.stride};
  out.b = {call.transpose_b ? b.row(g.b.row + n) + g.b.column : b.row(g.b.row) + g.b.column + n, b.stride};
  out.alpha = static_cast<float>(call.alpha);
  out.c = {c.row(p.row) + p.column, c.stride};
  out.add = add;
  return out;
}

}  // namespace

template <>
void BatchedProduct<float>::cpu(const Execution& on, const BatchedProductCall& call, View<const float> a, View<const float> b,
                                View<float> c, Write write) {
  std::vector<Block> blocks;
  int64_t covered = 0;
  for (const ProductGroup& g : call.groups) {
    blocks.push_back(g.c);
    covered += g.c.area();
  }
  const bool apart = disjoint(blocks);
  const bool clear = write == Write::overwrite && (!apart || covered < c.rows * c.columns);
  if (clear)
    parallel_blocks(*on.threads, c.rows, cpu::pass_rows(c.columns), [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r) std::fill_n(c.row(r), c.columns, 0.f);
    });
  const bool add = !apart || write == Write::add;
  const Tasks tasks = apart ? cut_blocks(call) : cut_grid(call);
  const size_t scratch = simd::product_scratch(strip_rows + 12, strip_columns);
  on.threads->run(static_cast<int64_t>(tasks.begin.size()) - 1, [&](int64_t t) {
    for (size_t i = tasks.begin[static_cast<size_t>(t)]; i < tasks.begin[static_cast<size_t>(t) + 1]; ++i)
      simd::product(described(call, tasks.pieces[i], a, b, c, add), thread_scratch(scratch));
  });
}

}  // namespace tapeformer::kernels
