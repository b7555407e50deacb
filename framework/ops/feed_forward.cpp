// SPDX-License-Identifier: Apache-2.0
// The fused feed-forward half-layer: checks, what is saved, forward and backward.
#include "framework/ops/feed_forward.h"

#include <optional>

#include "framework/kernels/feed_forward.h"
#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/gradient.h"
#include "framework/ops/residual.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {
namespace {

// Returns F, the number of hidden units.
int64_t check(const Context& ctx, const FeedForwardParameters& p, const Variable& x, const Variable& residual) {
  constexpr std::string_view op = "feed_forward";
  check_matrix(ctx, op, "x", x.value);
  check_tensor(op, "residual", residual.value, ctx.dtype, x.value.shape());
  const int64_t columns = x.value.shape()[1];
  require(p.up->value.defined() && p.up->value.shape().rank() == 2, "{}: {} is not a matrix", op, p.up->name);
  const int64_t hidden = p.up->value.shape()[0];
  check_parameter(ctx, op, *p.up, {hidden, columns});
  check_parameter(ctx, op, *p.down, {columns, hidden});
  if (p.up_bias) check_parameter(ctx, op, *p.up_bias, {hidden});
  if (p.down_bias) check_parameter(ctx, op, *p.down_bias, {columns});
  if (p.norm) {
    check_parameter(ctx, op, *p.norm->gain, {columns});
    check_parameter(ctx, op, *p.norm->shift, {columns});
  }
  return hidden;
}

OpWork work(const FeedForwardParameters& p, const Variable& x, const Variable& residual, bool recorded) {
  return feed_forward_work(x.value, *p.up, *p.down, p.activation, recorded) + fused_residual_work(residual.value, p.dropout_out) +
         (p.norm ? fused_norm_work(x.value) : OpWork{});
}

bool any_trainable(const FeedForwardParameters& p) {
  const auto trainable = [](const Parameter* q) { return q && q->trainable; };
  return trainable(p.up) || trainable(p.up_bias) || trainable(p.down) || trainable(p.down_bias) ||
         (p.norm && (trainable(p.norm->gain) || trainable(p.norm->shift)));
}

template <class T>
kernels::FeedForwardWeights<T> weights(const FeedForwardParameters& p) {
  kernels::FeedForwardWeights<T> w;
  if (p.norm) {
    w.gain = p.norm->gain->value.data<T>();
    w.shift = p.norm->shift->value.data<T>();
    w.epsilon = static_cast<T>(p.norm->epsilon);
  }
  w.up = p.up->value.matrix<const T>();
  w.up_bias = values_or_null<T>(p.up_bias);
  w.down = p.down->value.matrix<const T>();
  w.down_bias = values_or_null<T>(p.down_bias);
  w.activation = p.activation;
  w.dropout_in = p.dropout_in;
  w.dropout_out = p.dropout_out;
  return w;
}

// What the closure keeps; all undefined where nothing is recorded or there is no norm.
struct Saved {
  Tensor u, mean, rstd;
};
template <class T>
kernels::FeedForwardSaved<T> saved_views(const Saved& s, int64_t rows, int64_t hidden) {
  return {s.u.defined() ? s.u.matrix<T>() : View<T>{nullptr, rows, hidden, hidden}, data_or_null<T>(s.mean), data_or_null<T>(s.rstd)};
}

// dresidual = dy. With n = norm(x), u = n Up' + b, a = drop_in(f(u)) and d = drop_out's mask times dy: dDown = d' a, da = d Down,
// du = f'(u) drop_in's mask times da, dUp = du' n, dn = du Up, then the rule of layer_norm. The biases get column sums of d and du.
void backward(Tape& tape, const Tensor& gradient, const FeedForwardParameters& p, const Variable& x, int residual, const Saved& saved) {
  if (x.node == no_node && !any_trainable(p)) return tape.add_gradient(residual, gradient);
  ResidualTarget target(tape, x, residual, gradient);
  const Tensor dup = parameter_gradient(p.up), dup_bias = parameter_gradient(p.up_bias);
  const Tensor ddown = parameter_gradient(p.down), ddown_bias = parameter_gradient(p.down_bias);
  const Tensor dgain = parameter_gradient(p.norm ? p.norm->gain : nullptr), dshift = parameter_gradient(p.norm ? p.norm->shift : nullptr);
  dispatch(gradient.dtype(), [&]<class T>(T) {
    const kernels::FeedForwardGradients<T> gradients{data_or_null<T>(dgain),    data_or_null<T>(dshift),   matrix_or_empty<T>(dup),
                                                     data_or_null<T>(dup_bias), matrix_or_empty<T>(ddown), data_or_null<T>(ddown_bias)};
    kernels::launch<kernels::FeedForwardBackward, T>(tape.execution(), weights<T>(p), gradient.matrix<const T>(), x.value.matrix<const T>(),
                                                     saved_views<T>(saved, gradient.shape()[0], saved.u.shape()[1]),
                                                     target.tensor().matrix<T>(), target.write(), gradients);
  });
  target.finish(tape);
}

}  // namespace

Variable feed_forward(Context& ctx, const FeedForwardParameters& parameters, const Variable& x, const Variable& residual) {
  FeedForwardParameters p = parameters;
  const int64_t rows = x.value.shape()[0], hidden = check(ctx, p, x, residual);
  const bool recorded = ctx.records(x) || ctx.records(residual) || (ctx.tape && any_trainable(p));
  const ProfileScope profile(ctx, "feed_forward", [&] { return work(p, x, residual, recorded); });
  if (recorded) {
    p.dropout_in = p.dropout_in.with_room(rows, hidden);
    p.dropout_out = p.dropout_out.with_room(rows, x.value.shape()[1]);
  }
  Saved saved;
  if (recorded) saved.u = Tensor(ctx.dtype, {rows, hidden});
  if (p.norm) {
    saved.mean = Tensor(ctx.dtype, {rows});
    saved.rstd = Tensor(ctx.dtype, {rows});
  }
  Variable y{Tensor(ctx.dtype, x.value.shape())};
  dispatch(ctx.dtype, [&]<class T>(T) {
    kernels::launch<kernels::FeedForwardForward, T>(ctx.on, weights<T>(p), x.value.matrix<const T>(), residual.value.matrix<const T>(),
                                                    y.value.matrix<T>(), saved_views<T>(saved, rows, hidden));
  });
  if (recorded) {
    const auto norm = p.norm ? std::optional(*p.norm) : std::nullopt;  // p.norm may point to something that lives for this call only
    y.node = ctx.tape->record("feed_forward", [p, norm, x, residual = residual.node, saved](Tape& tape, const Tensor& gradient) {
      FeedForwardParameters own = p;
      own.norm = norm ? &*norm : nullptr;
      own.dropout_in = p.dropout_in.after();
      own.dropout_out = p.dropout_out.after();
      backward(tape, gradient, own, x, residual, saved);
    });
  }
  return y;
}

}  // namespace tapeformer::ops
