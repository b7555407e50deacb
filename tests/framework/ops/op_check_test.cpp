// SPDX-License-Identifier: Apache-2.0
// The check of ops sees a gradient term that is off by one in a hundred, and a value that is off by less.
#include "tests/framework/ops/op_check.h"

#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

// y = x^2 + x with the first term of its gradient multiplied by `factor`.
OpCase square_case(double factor, double value_error) {
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {3, 5}, 1)};
  c.op = [=](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    const Variable x = in[0];
    Matrix y(x.value);
    for (double& v : y.values) v = v * v + v + value_error;
    Variable out{Tensor::of<double>(y.values).reshaped({3, 5}).converted(ctx.dtype)};
    if (ctx.records(x))
      out.node = ctx.tape->record("square", [=](Tape& tape, const Tensor& gradient) {
        Matrix dx(gradient), at(x.value);
        for (size_t i = 0; i < dx.values.size(); ++i) dx.values[i] *= factor * 2 * at.values[i] + 1;
        tape.add_gradient(x.node, Tensor::of<double>(dx.values).reshaped({3, 5}).converted(gradient.dtype()));
      });
    return out;
  };
  c.oracle = [](const std::vector<Matrix>& in, const std::vector<Matrix>&) {
    Matrix y = in[0];
    for (double& v : y.values) v *= v + 1;
    return y;
  };
  return c;
}

}  // namespace

TEST_CASE("a right op passes, a term scaled by 1.01 or a shifted value does not", "[op_check]") {
  check_op(square_case(1, 0));
  CHECK(measure_op(square_case(1, 0)).difference < 1e-6);
  CHECK(measure_op(square_case(1.01, 0)).difference > 1e-4);
  CHECK(measure_op(square_case(1, 1e-6)).value > test_devices().front().tolerance);
}
