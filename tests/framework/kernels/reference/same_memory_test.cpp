// SPDX-License-Identifier: Apache-2.0
// Kernels whose contract lets the result lie in the memory of an operand give the same numbers then.
#include "framework/kernels/activation.h"
#include "framework/kernels/dropout.h"
#include "framework/kernels/elementwise.h"
#include "framework/kernels/feed_forward.h"
#include "tests/support/catch.h"
#include "tests/support/matrix.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::kernels;
using namespace tapeformer::test;

namespace {

const Execution on{};
Tensor random(uint32_t seed, Shape shape = {4, 6}) { return random_tensor(Dtype::f64, shape, seed); }

}  // namespace

TEST_CASE("activations and dropout in place", "[reference]") {
  const Tensor x = random(1), dy = random(2), apart(Dtype::f64, {4, 6}), y = x.clone(), dx = dy.clone();
  ActivationForward<double>::reference(on, Activation::gelu, x.matrix<double>(), apart.matrix<double>());
  ActivationForward<double>::reference(on, Activation::gelu, y.matrix<double>(), y.matrix<double>());
  CHECK(Matrix(y).values == Matrix(apart).values);
  ActivationBackward<double>::reference(on, Activation::gelu, x.matrix<double>(), dy.matrix<double>(), apart.matrix<double>());
  ActivationBackward<double>::reference(on, Activation::gelu, x.matrix<double>(), dx.matrix<double>(), dx.matrix<double>());
  CHECK(Matrix(dx).values == Matrix(apart).values);
  const std::vector<int32_t> positions{0, 1, 2, 3};
  const std::vector<uint32_t> samples{8, 8, 8, 8};
  const DropoutDraw draw{5, uint64_t{1} << 31, 2, 1, positions.data(), samples.data()};
  const Tensor z = x.clone();
  Dropout<double>::reference(on, draw, x.matrix<double>(), apart.matrix<double>(), Write::overwrite);
  Dropout<double>::reference(on, draw, z.matrix<double>(), z.matrix<double>(), Write::overwrite);
  CHECK(Matrix(z).values == Matrix(apart).values);
  CHECK(Matrix(z).values != Matrix(x).values);
}

TEST_CASE("sums and the feed-forward residual in place, columns of a wider array left alone", "[reference]") {
  const Tensor x = random(1), y = random(2), apart(Dtype::f64, {4, 6}), wide = random(3, {4, 9}), before = wide.clone();
  Sum<double>::reference(on, x.matrix<double>(), y.matrix<double>(), apart.matrix<double>());
  wide.columns(2, 6).copy_from(y);
  Sum<double>::reference(on, x.matrix<double>(), wide.columns(2, 6).matrix<double>(), wide.columns(2, 6).matrix<double>());
  CHECK(Matrix(wide.columns(2, 6)).values == Matrix(apart).values);
  CHECK(Matrix(wide.columns(0, 2)).values == Matrix(before.columns(0, 2)).values);
  CHECK(Matrix(wide.columns(8, 1)).values == Matrix(before.columns(8, 1)).values);

  const Tensor up = random(4, {5, 6}), down = random(5, {6, 5}), residual = random(6), u(Dtype::f64, {4, 5});
  FeedForwardWeights<double> w;
  w.up = up.matrix<const double>();
  w.down = down.matrix<const double>();
  FeedForwardForward<double>::reference(on, w, x.matrix<double>(), residual.matrix<double>(), apart.matrix<double>(), {u.matrix<double>()});
  FeedForwardForward<double>::reference(on, w, x.matrix<double>(), residual.matrix<double>(), residual.matrix<double>(),
                                        {View<double>{nullptr, 4, 5, 5}});
  CHECK(Matrix(residual).values == Matrix(apart).values);
}

TEST_CASE("scaling and adding", "[reference]") {
  const Tensor x = random(1), y = x.clone();
  Scaled<double>::reference(on, -3, y.matrix<const double>(), y.matrix<double>(), Write::overwrite);
  AddTo<double>::reference(on, x.matrix<double>(), y.matrix<double>());
  for (size_t i = 0; i < 24; ++i) CHECK(std::abs(y.span<double>()[i] + 2 * x.span<double>()[i]) < 1e-12);
}
