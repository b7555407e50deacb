// SPDX-License-Identifier: Apache-2.0
// One op against its oracle: values on every device, gradients by central differences of the oracle, and how it behaves with a gradient
// that is already there, with frozen parameters, with inputs nobody differentiates, and without a tape.
#pragma once
#include <functional>
#include <vector>

#include "framework/autograd/context.h"
#include "tests/support/devices.h"
#include "tests/support/matrix.h"

namespace tapeformer::test {

struct OpCase {
  std::vector<Tensor> inputs;      // float64, exact in float32
  std::vector<Tensor> parameters;  // the same
  // Runs the op on inputs and parameters in the context's dtype.
  std::function<Variable(Context&, const std::vector<Variable>&, std::vector<Parameter>&)> op;
  // The same from the formula.
  std::function<Matrix(const std::vector<Matrix>&, const std::vector<Matrix>&)> oracle;
  Mode mode = Mode::evaluate;
  int64_t entries = 40;     // of each array that are checked by differences
  double cancellation = 1;  // multiplies the tolerance of float devices where the formula itself cancels (a norm over two values)
};

// What was measured on the reference device in double.
struct OpErrors {
  double value = 0;       // against the oracle
  double difference = 0;  // the worst gradient against differences of the oracle
};
OpErrors measure_op(const OpCase& c);

// Measures, checks the limits, then repeats on every device.
void check_op(const OpCase& c);

// The context of these tests: seed 7, step 3.
Context test_context(const TestDevice& device, Tape* tape, Mode mode = Mode::evaluate);

}  // namespace tapeformer::test
