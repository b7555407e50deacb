// SPDX-License-Identifier: Apache-2.0
// The tape: gradients add up, shared arrays are never written to, and closures are freed.
#include "framework/autograd/tape.h"

#include <memory>

#include "tests/support/catch.h"
#include "tests/support/devices.h"
#include "tests/support/matrix.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

Tensor tensor(std::vector<double> values) { return Tensor::of(values); }
const Execution on{};

// A node that keeps what it was given.
int keep(Tape& tape, std::vector<double>& gradient) {
  return tape.record("keep", [&gradient](Tape&, const Tensor& g) { gradient = Matrix(g).values; });
}
// An output [1] whose backward runs `f`.
Variable output(Tape& tape, Tape::Backward f) { return {Tensor::zeros(Dtype::f64, {1}), tape.record("output", std::move(f))}; }

}  // namespace

TEST_CASE("gradients of several readers add up", "[tape]") {
  Tape tape(on);
  std::vector<double> gradient;
  const int x = keep(tape, gradient);
  tape.backward(output(tape,
                       [&](Tape& t, const Tensor& g) {
                         CHECK(Matrix(g).values == std::vector<double>{2.5});
                         t.add_gradient(x, tensor({1, 2}));
                         t.add_gradient(x, tensor({10, 20}));
                         t.add_gradient(x, tensor({100, 200}));
                       }),
                2.5);
  CHECK(gradient == std::vector<double>{111, 222});
}

TEST_CASE("a shared gradient is copied before it is added to", "[tape]") {
  Tape tape(on);
  std::vector<double> gx, gy;
  const int x = keep(tape, gx), y = keep(tape, gy);
  const Tensor shared = tensor({1, 2});
  tape.backward(output(tape, [&](Tape& t, const Tensor&) {
    t.add_gradient(x, shared);
    t.add_gradient(y, shared);
    t.add_gradient(x, tensor({5, 5}));
    const GradientTarget target = t.gradient_target(y, Dtype::f64, {2});
    CHECK(target.write == kernels::Write::add);
    target.tensor.span<double>()[0] += 7;
  }));
  CHECK(Matrix(shared).values == std::vector<double>{1, 2});
  CHECK(gx == std::vector<double>{6, 7});
  CHECK(gy == std::vector<double>{8, 2});
}

TEST_CASE("the first target is a fresh array to overwrite", "[tape]") {
  Tape tape(on);
  std::vector<double> gradient;
  const int x = keep(tape, gradient);
  tape.backward(output(tape, [&](Tape& t, const Tensor&) {
    const GradientTarget target = t.gradient_target(x, Dtype::f64, {2});
    CHECK(target.write == kernels::Write::overwrite);
    target.tensor.copy_from(tensor({3, 4}));
  }));
  CHECK(gradient == std::vector<double>{3, 4});
}

TEST_CASE("an array passed on unchanged is not copied for its only reader", "[tape]") {
  Tape tape(on);
  const std::byte *given = nullptr, *received = nullptr;
  const int x = tape.record("x", [&](Tape&, const Tensor& g) { received = g.raw(); });
  const int middle = tape.record("pass on", [&](Tape& t, const Tensor& g) {
    given = g.raw();
    t.add_gradient(x, g);
  });
  const int adder = tape.record("adder", [&](Tape& t, const Tensor&) { t.add_gradient(middle, tensor({1, 1})); });
  tape.backward({Tensor::zeros(Dtype::f64, {2}), adder});
  CHECK(given == received);
}

TEST_CASE("nodes without a gradient are skipped, and every closure is freed", "[tape]") {
  Tape tape(on);
  const auto witness = std::make_shared<int>(0);
  bool ran = false;
  tape.record("nobody reads this", [&ran, witness](Tape&, const Tensor&) { ran = true; });
  std::vector<double> gradient;
  const int x = keep(tape, gradient);
  const Variable y = output(tape, [x, witness](Tape& t, const Tensor& g) { t.add_gradient(x, g); });
  CHECK(witness.use_count() == 3);
  tape.backward(y);
  CHECK_FALSE(ran);
  CHECK(witness.use_count() == 1);
  CHECK(gradient == std::vector<double>{1});
  CHECK(tape.size() == 3);
}

TEST_CASE("a tape that is thrown away frees its closures", "[tape]") {
  const auto witness = std::make_shared<int>(0);
  {
    Tape tape(on);
    tape.record("a", [witness](Tape&, const Tensor&) {});
    CHECK(witness.use_count() == 2);
  }
  CHECK(witness.use_count() == 1);
}

TEST_CASE("misuse of the tape throws", "[tape]") {
  Tape tape(on);
  std::vector<double> gradient;
  const int x = keep(tape, gradient);
  CHECK_THROWS_AS(tape.backward({Tensor::zeros(Dtype::f64, {1})}), Error);
  CHECK_THROWS_AS(tape.gradient_target(no_node, Dtype::f64, {1}), Error);
  tape.add_gradient(no_node, tensor({1}));
  tape.add_gradient(x, tensor({1, 2}));
  CHECK_THROWS_WITH(tape.add_gradient(x, tensor({1, 2, 3})), Catch::Matchers::ContainsSubstring("[3]"));
}
