// SPDX-License-Identifier: Apache-2.0
// Runs one op in every way that its callers may, and compares.
#include "tests/framework/ops/op_check.h"

#include <algorithm>

#include "tests/support/catch.h"
#include "tests/support/gradient_check.h"
#include "tests/support/random_tensor.h"

namespace tapeformer::test {
namespace {

enum class Which { everything, inputs_only, parameters_only };

struct Run {
  Tensor value;
  int node = no_node;
  std::vector<Tensor> inputs, parameters;  // gradients; undefined where none came
};

Tensor constant(Dtype dtype, const Shape& shape, double value) {
  Tensor t(Dtype::f64, shape);
  std::ranges::fill(t.span<double>(), value);
  return t.converted(dtype);
}

std::vector<Parameter> parameters_of(const OpCase& c, Dtype dtype, Which which) {
  std::vector<Parameter> out;
  for (const Tensor& p : c.parameters)
    out.push_back({"parameter" + std::to_string(out.size()), p.converted(dtype), {}, which != Which::inputs_only});
  return out;
}

// The factors of the outputs in the scalar whose gradient is taken.
Tensor output_weights(Dtype dtype, const Shape& shape) { return random_tensor(dtype, shape, 99); }

// Gradients of sum(weights * op). With `preload`, each input has the gradient `preload` before, and each parameter twice that.
Run run(const OpCase& c, const TestDevice& device, Which which = Which::everything, double preload = 0) {
  Tape tape(device.on);
  Context ctx = test_context(device, &tape, c.mode);
  Run out;
  out.inputs.resize(c.inputs.size());
  std::vector<Variable> inputs;
  std::vector<Tensor> preloaded;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    inputs.push_back({c.inputs[i].converted(device.dtype)});
    if (which == Which::parameters_only) continue;
    inputs[i].node = tape.record("input", [&out, i](Tape&, const Tensor& gradient) { out.inputs[i] = gradient.clone(); });
    if (preload == 0) continue;
    preloaded.push_back(constant(device.dtype, c.inputs[i].shape(), preload));
    tape.add_gradient(inputs[i].node, preloaded.back());
  }
  std::vector<Parameter> parameters = parameters_of(c, device.dtype, which);
  if (preload != 0)
    for (Parameter& p : parameters) p.gradient = constant(device.dtype, p.value.shape(), 2 * preload);
  const Variable y = c.op(ctx, inputs, parameters);
  out.value = y.value.clone();
  out.node = y.node;
  if (y.node == no_node) return out;
  const Tensor weights = output_weights(device.dtype, y.value.shape()), weights_before = weights.clone();
  const Variable sum{Tensor::zeros(device.dtype, {1}),
                     tape.record("weighted sum", [&](Tape& t, const Tensor&) { t.add_gradient(y.node, weights); })};
  tape.backward(sum);
  for (const Parameter& p : parameters) out.parameters.push_back(p.gradient);
  // Arrays that the test shares with the tape are read only.
  CHECK(Matrix(weights).values == Matrix(weights_before).values);
  for (const Tensor& p : preloaded) CHECK(std::ranges::all_of(Matrix(p).values, [&](double v) { return v == preload; }));
  return out;
}

std::vector<Matrix> matrices(const std::vector<Tensor>& tensors) { return {tensors.begin(), tensors.end()}; }

// The worst relative error of two lists of gradients, after taking `offset` from the first. A missing gradient stands for zeros.
double worst(const std::vector<Tensor>& found, const std::vector<Tensor>& expected, double offset = 0) {
  double error = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i].defined() && !found[i].defined()) continue;
    const Tensor& shape = expected[i].defined() ? expected[i] : found[i];
    Matrix f = found[i].defined() ? Matrix(found[i]) : Matrix(Tensor::zeros(shape.dtype(), shape.shape()));
    for (double& v : f.values) v -= offset;
    error = std::max(error, relative_error(f, expected[i].defined() ? Matrix(expected[i]) : Matrix(f.rows, f.columns), 1e-2));
  }
  return error;
}

double worst_difference(const OpCase& c, const Run& r) {
  std::vector<Matrix> inputs = matrices(c.inputs), parameters = matrices(c.parameters);
  const Matrix weights(output_weights(Dtype::f64, r.value.shape()));
  const auto loss = [&] {
    const Matrix y = c.oracle(inputs, parameters);
    double sum = 0;
    for (size_t i = 0; i < y.values.size(); ++i) sum += weights.values[i] * y.values[i];
    return sum;
  };
  double error = 0;
  const auto check = [&](Matrix& x, const Tensor& gradient) {
    const Matrix g = gradient.defined() ? Matrix(gradient) : Matrix(x.rows, x.columns);
    error = std::max(error, gradient_error(loss, x, g, c.entries));
  };
  for (size_t i = 0; i < inputs.size(); ++i) check(inputs[i], r.inputs[i]);
  for (size_t i = 0; i < parameters.size(); ++i) check(parameters[i], r.parameters[i]);
  return error;
}

void check_device(const OpCase& c, const TestDevice& device, const Matrix& oracle, const Run& judge) {
  INFO("device " << device.name);
  const double tolerance = device.tolerance * (device.dtype == Dtype::f32 ? c.cancellation : 1);
  const Run all = run(c, device);
  CHECK(relative_error(Matrix(all.value), oracle) <= tolerance);
  CHECK(worst(all.inputs, judge.inputs) <= tolerance);
  CHECK(worst(all.parameters, judge.parameters) <= tolerance);

  const Run added = run(c, device, Which::everything, 0.25);
  CHECK(worst(added.inputs, judge.inputs, 0.25) <= tolerance);
  CHECK(worst(added.parameters, judge.parameters, 0.5) <= tolerance);

  if (!c.parameters.empty()) {
    const Run frozen = run(c, device, Which::inputs_only);
    CHECK(std::ranges::none_of(frozen.parameters, [](const Tensor& g) { return g.defined(); }));
    CHECK(worst(frozen.inputs, judge.inputs) <= tolerance);
    const Run constant_inputs = run(c, device, Which::parameters_only);
    CHECK(worst(constant_inputs.parameters, judge.parameters) <= tolerance);
  }

  Context ctx = test_context(device, nullptr, c.mode);
  std::vector<Variable> inputs;
  for (const Tensor& x : c.inputs) inputs.push_back({x.converted(device.dtype)});
  std::vector<Parameter> parameters = parameters_of(c, device.dtype, Which::everything);
  const Variable unrecorded = c.op(ctx, inputs, parameters);
  CHECK(unrecorded.node == no_node);
  CHECK(Matrix(unrecorded.value).values == Matrix(all.value).values);
}

}  // namespace

Context test_context(const TestDevice& device, Tape* tape, Mode mode) {
  Context ctx;
  ctx.on = device.on;
  ctx.tape = tape;
  ctx.mode = mode;
  ctx.seed = 7;
  ctx.step = 3;
  ctx.dtype = device.dtype;
  return ctx;
}

OpErrors measure_op(const OpCase& c) {
  const Run r = run(c, test_devices().front());
  return {relative_error(Matrix(r.value), c.oracle(matrices(c.inputs), matrices(c.parameters))), worst_difference(c, r)};
}

void check_op(const OpCase& c) {
  const OpErrors errors = measure_op(c);
  CHECK(errors.value <= test_devices().front().tolerance);
  CHECK(errors.difference <= 1e-6);
  const Matrix oracle = c.oracle(matrices(c.inputs), matrices(c.parameters));
  const Run judge = run(c, test_devices().front());
  for (const TestDevice& device : test_devices()) check_device(c, device, oracle, judge);
}

}  // namespace tapeformer::test
