// SPDX-License-Identifier: Apache-2.0
// Pseudo-inverses: checks, forward and backward.
#include "framework/ops/pseudo_inverse.h"

#include "framework/kernels/pseudo_inverse.h"
#include "framework/ops/check.h"
#include "framework/ops/dispatch.h"
#include "framework/ops/gradient.h"
#include "framework/ops/work.h"

namespace tapeformer::ops {

Variable pseudo_inverse(Context& ctx, const Variable& a, int iterations) {
  check_matrix(ctx, "pseudo_inverse", "a", a.value);
  const int64_t m = a.value.shape()[1];
  require(m >= 1 && a.value.shape()[0] % m == 0, "pseudo_inverse: a is {}, expected square matrices below each other",
          a.value.shape().text());
  require(iterations >= 0, "pseudo_inverse: {} iterations", iterations);
  const kernels::PseudoInverseCall call{a.value.shape()[0] / m, m, iterations};
  // Four products an iteration, and two for each of them backward.
  const double products = 8.0 * static_cast<double>(m) * iterations;
  const ProfileScope profile(ctx, "pseudo_inverse", [&] { return pass_work(a.value, {products, 2}, {2 * products, 3}); });
  Variable z{Tensor(ctx.dtype, a.value.shape())};
  const Tensor kept = ctx.records(a) ? Tensor(ctx.dtype, {call.kept_rows(), m}) : Tensor();
  dispatch(ctx.dtype, [&]<class T>(T) {
    kernels::launch<kernels::PseudoInverseForward, T>(ctx.on, call, a.value.matrix<const T>(), z.value.matrix<T>(),
                                                      matrix_or_empty<T>(kept));
  });
  if (ctx.records(a))
    z.node = ctx.tape->record("pseudo_inverse", [call, a, kept](Tape& tape, const Tensor& gradient) {
      const GradientTarget da = tape.gradient_target(a.node, gradient.dtype(), gradient.shape());
      dispatch(gradient.dtype(), [&]<class T>(T) {
        kernels::launch<kernels::PseudoInverseBackward, T>(tape.execution(), call, a.value.matrix<const T>(), kept.matrix<const T>(),
                                                           gradient.matrix<const T>(), da.tensor.matrix<T>(), da.write);
      });
    });
  return z;
}

}  // namespace tapeformer::ops
