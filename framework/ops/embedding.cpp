// SPDX-License-Identifier: Apache-2.0
// Embeddings and positions: checks of indices, forward and backward.
#include "framework/ops/embedding.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "framework/kernels/embedding.h"
#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/gradient.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {
namespace {

int64_t check_table(const Context& ctx, std::string_view op, const Parameter& table, int64_t columns) {
  require(table.value.defined() && table.value.shape().rank() == 2, "{}: {} is not a matrix", op, table.name);
  check_parameter(ctx, op, table, {table.value.shape()[0], columns});
  return table.value.shape()[0];
}

// y (+)= rows of the table.
void look_up(const Context& ctx, const int32_t* index, const Tensor& table, const Tensor& y, kernels::Write write) {
  dispatch(ctx.dtype, [&]<class T>(T) {
    kernels::launch<kernels::EmbeddingForward, T>(ctx.on, index, table.matrix<const T>(), y.matrix<T>(), write);
  });
}

// dtable[index[t]] += dy[t].
void add_to_table(Tape& tape, const int32_t* index, const Tensor& gradient, Parameter& table) {
  const Tensor dtable = parameter_gradient(&table);
  dispatch(gradient.dtype(), [&]<class T>(T) {
    kernels::launch<kernels::EmbeddingBackward, T>(tape.execution(), index, gradient.matrix<const T>(), dtable.matrix<T>());
  });
}

// [length, columns]: sin and cos of position / 10000^(2i / columns), by turning a unit vector: one row after the other, so that a
// position's bytes do not depend on the longest sequence.
Tensor sinusoids(Dtype dtype, int64_t length, int64_t columns) {
  Tensor table(dtype, {length, columns});
  dispatch(dtype, [&]<class T>(T) {
    const View<T> view = table.matrix<T>();
    for (int64_t c = 0; c < columns; c += 2) {
      const double angle = std::pow(10000.0, -static_cast<double>(c) / static_cast<double>(columns));
      const double turn_sin = std::sin(angle), turn_cos = std::cos(angle);
      double s = 0, k = 1;
      for (int64_t r = 0; r < length; ++r) {
        view.row(r)[c] = static_cast<T>(s);
        if (c + 1 < columns) view.row(r)[c + 1] = static_cast<T>(k);
        const double next = s * turn_cos + k * turn_sin;
        k = k * turn_cos - s * turn_sin;
        s = next;
      }
    }
  });
  return table;
}

}  // namespace

Variable embedding(Context& ctx, const Tensor& tokens, Parameter& table) {
  require(table.value.defined() && table.value.shape().rank() == 2, "embedding: {} is not a matrix", table.name);
  const int64_t columns = table.value.shape()[1], size = check_table(ctx, "embedding", table, columns);
  check_tensor("embedding", "tokens", tokens, Dtype::i32, {tokens.shape()[0]});
  const std::span<const int32_t> index = tokens.span<int32_t>();
  for (size_t t = 0; t < index.size(); ++t)
    if (index[t] < 0 || index[t] >= size)
      fail(ExitCode::data, "embedding: token {} at row {} of the batch is outside the table {} of {} rows", index[t], t, table.name, size);
  const ProfileScope profile(ctx, "embedding", [&] { return look_up_work(table.value, tokens.shape()[0]); });
  Variable y{Tensor(ctx.dtype, {tokens.shape()[0], columns})};
  look_up(ctx, index.data(), table.value, y.value, kernels::Write::overwrite);
  // dtable[v] = the sum of dy[t] over the places t of token v.
  if (ctx.records(table))
    y.node = ctx.tape->record(
        "embedding", [tokens, &table](Tape& tape, const Tensor& gradient) { add_to_table(tape, tokens.data<int32_t>(), gradient, table); });
  return y;
}

Variable add_learned_positions(Context& ctx, const Variable& x, Parameter& table, const Packing& packing) {
  check_matrix(ctx, "add_learned_positions", "x", x.value);
  check_rows("add_learned_positions", x.value, packing);
  const int64_t size = check_table(ctx, "add_learned_positions", table, x.value.shape()[1]);
  if (packing.longest() > size)
    fail(ExitCode::data, "a sequence of {} rows, but {} has {} positions; truncate the data or give the model more positions",
         packing.longest(), table.name, size);
  const ProfileScope profile(ctx, "add_learned_positions", [&] {
    return pass_work(x.value, {1, 1}, {0, 0}) + look_up_work(table.value, packing.rows());
  });
  Variable y{x.value.clone()};
  look_up(ctx, packing.positions().data(), table.value, y.value, kernels::Write::add);
  // dx = dy; dtable[p] = the sum of dy over the rows at position p.
  if (ctx.records(x) || ctx.records(table))
    y.node = ctx.tape->record("add_learned_positions", [x = x.node, &table, &packing](Tape& tape, const Tensor& gradient) {
      tape.add_gradient(x, gradient);
      if (table.trainable) add_to_table(tape, packing.positions().data(), gradient, table);
    });
  return y;
}

const Tensor& Sinusoids::table(Dtype dtype, int64_t length, int64_t columns) {
  const bool fits = table_.defined() && table_.dtype() == dtype && table_.shape()[0] >= length && table_.shape()[1] == columns;
  // A power of two, so that lengths that grow little by little make few tables.
  if (!fits) table_ = sinusoids(dtype, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(1, length)))), columns);
  return table_;
}

Variable add_sinusoidal_positions(Context& ctx, const Variable& x, const Packing& packing, Sinusoids& kept) {
  check_matrix(ctx, "add_sinusoidal_positions", "x", x.value);
  check_rows("add_sinusoidal_positions", x.value, packing);
  const ProfileScope profile(ctx, "add_sinusoidal_positions", [&] { return pass_work(x.value, {1, 2}, {0, 0}); });
  Variable y{x.value.clone()};
  look_up(ctx, packing.positions().data(), kept.table(ctx.dtype, packing.longest(), x.value.shape()[1]), y.value, kernels::Write::add);
  // dx = dy.
  if (ctx.records(x))
    y.node =
        ctx.tape->record("add_sinusoidal_positions", [x = x.node](Tape& tape, const Tensor& gradient) { tape.add_gradient(x, gradient); });
  return y;
}

Variable add_sinusoidal_positions(Context& ctx, const Variable& x, const Packing& packing) {
  Sinusoids once;
  return add_sinusoidal_positions(ctx, x, packing, once);
}

}  // namespace tapeformer::ops
