// SPDX-License-Identifier: Apache-2.0
// Sinkhorn normalisation, permutations and mixed blocks: checks, forward and backward.
#include "framework/ops/sinkhorn.h"

#include <algorithm>
#include <cmath>

#include "framework/core/random.h"
#include "framework/kernels/sinkhorn.h"
#include "framework/kernels/sorted_blocks.h"
#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/gradient.h"
#include "framework/ops/in_blocks.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {
namespace {

int64_t width_of(const char* op, const Tensor& scores, const Packing& blocks, int heads) {
  check_rows(op, scores, blocks);
  const int64_t width = scores.shape()[1] / heads;
  require(heads >= 1 && scores.shape()[1] % heads == 0 && width >= blocks.longest(), "{}: {} columns for {} heads of up to {} blocks", op,
          scores.shape()[1], heads, blocks.longest());
  return width;
}

// Rows [first, first + n) and columns from `column` of the scores plus the noise, as doubles.
std::vector<double> noisy(const Tensor& scores, const Tensor& noise, int64_t first, int64_t column, int64_t n) {
  std::vector<double> out;
  dispatch(scores.dtype(), [&]<class T>(T) {
    const View<const T> s = scores.matrix<const T>(), g = matrix_or_empty<const T>(noise);
    for (int64_t u = 0; u < n; ++u)
      for (int64_t v = 0; v < n; ++v)
        out.push_back(static_cast<double>(s.row(first + u)[column + v]) + (g.data ? static_cast<double>(g.row(first + u)[column + v]) : 0));
  });
  return out;
}

// Each step is about 4 FLOPs an element forward, and 6 backward.
OpWork sinkhorn_work(const Tensor& scores, const kernels::SinkhornCall& call) {
  double elements = 0;
  for (int b = 0; b < call.blocks->sequences(); ++b) elements += call.heads * std::pow(call.blocks->length(b), 2);
  const double steps = call.causal ? elements / 2 : 2.0 * call.iterations * elements;
  return {{4 * steps, 2 * bytes_of(scores)}, {6 * steps, 3 * bytes_of(scores)}};
}

// A product of the matrix with all blocks; two backward.
OpWork sorted_blocks_work(const Tensor& rows, const kernels::SortedBlocksCall& call) {
  double product = 0;
  for (int b = 0; b < call.blocks->sequences(); ++b)
    product += 2.0 * call.made(b) * call.block * call.blocks->length(b) * call.heads * call.head_dim;
  return {{product, 2 * bytes_of(rows)}, {2 * product, 3 * bytes_of(rows)}};
}

// The matrices of 0 and 1.
Tensor as_matrices(const Tensor& permutations, const Packing& blocks, int heads, const Tensor& like) {
  const Tensor p = Tensor::zeros(like.dtype(), like.shape());
  const int64_t width = like.shape()[1] / heads;
  dispatch(like.dtype(), [&]<class T>(T) {
    const View<const int32_t> to = permutations.matrix<const int32_t>();
    for (int64_t r = 0; r < blocks.rows(); ++r)
      for (int h = 0; h < heads; ++h) p.matrix<T>().row(r)[h * width + to.row(r)[h]] = T{1};
  });
  return p;
}

// g[v] = -factor log(-log u_v) for the columns v < n of a row of the draw; a counter has the words of four.
template <class T>
void gumbel_row(const Draw& draw, uint32_t row, int64_t n, double factor, T* g) {
  for (int64_t first = 0; first < n; first += 4) {
    const PhiloxWords words = philox({static_cast<uint32_t>(first / 4), row, draw.sample, draw.step}, draw.key);
    for (int64_t v = first; v < std::min(n, first + 4); ++v)
      g[v] = static_cast<T>(factor * -std::log(-std::log(Draw::uniform_of(words[static_cast<size_t>(v - first)]))));
  }
}

}  // namespace

Tensor gumbel_noise(const Context& ctx, const Packing& blocks, int heads, int64_t width, double factor, std::string_view name, int first_head) {
  if (ctx.mode != Mode::train || factor == 0) return {};
  const Tensor noise = Tensor::zeros(ctx.dtype, {blocks.rows(), heads * width});
  std::vector<uint64_t> keys;
  for (int h = 0; h < heads; ++h) keys.push_back(random_key(ctx.seed, "gumbel", name, first_head + h, 0));
  constexpr int64_t rows_a_task = 8;
  dispatch(ctx.dtype, [&]<class T>(T) {
    in_blocks(ctx.on, blocks.rows(), rows_a_task, [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r) {
        const int32_t place = blocks.positions()[static_cast<size_t>(r)];
        const int32_t end = *std::upper_bound(blocks.offsets().begin(), blocks.offsets().end(), static_cast<int32_t>(r));
        const int64_t n = end - (r - place);
        for (int h = 0; h < heads; ++h)
          gumbel_row({keys[static_cast<size_t>(h)], blocks.row_samples()[static_cast<size_t>(r)], ctx.step}, static_cast<uint32_t>(place),
                     n, factor, noise.matrix<T>().row(r) + h * width);
      }
    });
  });
  return noise;
}

Tensor best_permutations(const Context& ctx, const Tensor& scores, const Tensor& noise, const Packing& blocks, int heads) {
  check_matrix(ctx, "best_permutations", "scores", scores);
  const int64_t width = width_of("best_permutations", scores, blocks, heads);
  const Tensor out(Dtype::i32, {blocks.rows(), heads});
  const auto solve = [&](int64_t task) {
    const int b = static_cast<int>(task / heads), h = static_cast<int>(task % heads), n = blocks.length(b);
    const int64_t first = blocks.offsets()[static_cast<size_t>(b)];
    const std::vector<int32_t> best = best_assignment(noisy(scores, noise, first, h * width, n), n);
    for (int u = 0; u < n; ++u) out.matrix<int32_t>().row(first + u)[h] = best[static_cast<size_t>(u)];
  };
  in_blocks(ctx.on, int64_t{blocks.sequences()} * heads, 1, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) solve(task);
  });
  return out;
}

Variable sinkhorn(Context& ctx, const Variable& scores, const Tensor& noise, const Packing& blocks, const SinkhornSettings& settings,
                  const Tensor& permutations) {
  check_matrix(ctx, "sinkhorn", "scores", scores.value);
  require(settings.iterations >= 1 && settings.temperature > 0, "sinkhorn: {} iterations at temperature {}", settings.iterations,
          settings.temperature);
  const kernels::SinkhornCall call{
      &blocks,        settings.heads, width_of("sinkhorn", scores.value, blocks, settings.heads), settings.temperature, settings.iterations,
      settings.causal};
  if (noise.defined()) check_tensor("sinkhorn", "noise", noise, ctx.dtype, scores.value.shape());
  const ProfileScope profile(ctx, "sinkhorn", [&] { return sinkhorn_work(scores.value, call); });
  Variable p;
  if (permutations.defined()) {
    require(!settings.causal, "sinkhorn: causal permutations");
    check_tensor("sinkhorn", "permutations", permutations, Dtype::i32, {blocks.rows(), settings.heads});
    p.value = as_matrices(permutations, blocks, settings.heads, scores.value);
  } else {
    p.value = Tensor(ctx.dtype, scores.value.shape());
    dispatch(ctx.dtype, [&]<class T>(T) {
      kernels::launch<kernels::SinkhornForward, T>(ctx.on, call, scores.value.matrix<const T>(), matrix_or_empty<const T>(noise),
                                                   p.value.matrix<T>());
    });
  }
  // For L' = L - lse(L) along an axis: dL = dL' - exp(L') sum of dL'. The matrices are computed again from the scores.
  if (ctx.records(scores))
    p.node = ctx.tape->record("sinkhorn", [call, scores, noise](Tape& tape, const Tensor& gradient) {
      const GradientTarget d = tape.gradient_target(scores.node, gradient.dtype(), gradient.shape());
      dispatch(gradient.dtype(), [&]<class T>(T) {
        kernels::launch<kernels::SinkhornBackward, T>(tape.execution(), call, scores.value.matrix<const T>(),
                                                      matrix_or_empty<const T>(noise), gradient.matrix<const T>(), d.tensor.matrix<T>(),
                                                      d.write);
      });
    });
  return p;
}

SortedBlocks sorted_blocks(Context& ctx, const Variable& p, const Variable& x, const Packing& sequences, const Packing& blocks,
                           const SortedBlocksSettings& s) {
  check_matrix(ctx, "sorted_blocks", "p", p.value);
  check_matrix(ctx, "sorted_blocks", "x", x.value);
  check_rows("sorted_blocks", x.value, sequences);
  const int64_t width = width_of("sorted_blocks", p.value, blocks, s.heads);
  require(s.block >= 1 && s.most >= 0 && s.columns % s.heads == 0 && s.first_column >= 0 && s.first_column + s.columns <= x.value.shape()[1],
          "sorted_blocks: blocks of {}, at most {}; columns {} + {} of {} for {} heads", s.block, s.most, s.first_column, s.columns,
          x.value.shape()[1], s.heads);
  const kernels::SortedBlocksCall call{&sequences, &blocks, s.block, s.heads, static_cast<int>(s.columns / s.heads), width,
                                       s.most ? s.most : std::max(1, blocks.longest()), s.own};
  require(blocks.sequences() == sequences.sequences(), "sorted_blocks: {} sequences and blocks of {}", sequences.sequences(), blocks.sequences());
  std::vector<int32_t> lengths;
  for (int b = 0; b < sequences.sequences(); ++b) {
    require(blocks.length(b) == (sequences.length(b) + s.block - 1) / s.block, "sorted_blocks: sequence {} of {} rows has {} blocks of {}", b,
            sequences.length(b), blocks.length(b), s.block);
    lengths.push_back(call.result_rows(b));
  }
  SortedBlocks out{{}, Tensor(ctx.dtype, {blocks.rows(), 2 * s.heads}), &sequences.with_lengths(lengths)};
  out.rows.value = Tensor(ctx.dtype, {out.packing->rows(), s.columns});
  const ProfileScope profile(ctx, "sorted_blocks", [&] { return sorted_blocks_work(out.rows.value, call); });
  dispatch(ctx.dtype, [&]<class T>(T) {
    kernels::launch<kernels::SortedBlocksForward, T>(ctx.on, call, p.value.matrix<const T>(),
                                                     x.value.columns(s.first_column, s.columns).matrix<const T>(), out.rows.value.matrix<T>(),
                                                     out.weights.matrix<T>());
  });
  if (ctx.tape && (p.node != no_node || x.node != no_node))
    out.rows.node = ctx.tape->record("sorted_blocks", [call, p, x, s](Tape& tape, const Tensor& gradient) {
      GradientTarget dp{{}, kernels::Write::overwrite};
      if (p.node != no_node) dp = tape.gradient_target(p.node, gradient.dtype(), p.value.shape());
      Tensor dx = cleared_target(tape, x.node, gradient.dtype(), x.value.shape());
      if (dx.defined()) dx = dx.columns(s.first_column, s.columns);
      dispatch(gradient.dtype(), [&]<class T>(T) {
        kernels::launch<kernels::SortedBlocksBackward, T>(
            tape.execution(), call, p.value.matrix<const T>(), x.value.columns(s.first_column, s.columns).template matrix<const T>(),
            gradient.matrix<const T>(), matrix_or_empty<T>(dp.tensor), dp.write, matrix_or_empty<T>(dx));
      });
    });
  return out;
}

}  // namespace tapeformer::ops
