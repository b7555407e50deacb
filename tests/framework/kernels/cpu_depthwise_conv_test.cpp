// SPDX-License-Identifier: Apache-2.0
// The cpu convolution along positions on every instruction set: widths around the vector, sequences around the kernel, strided rows.
#include "framework/kernels/depthwise_conv.h"

#include "tests/framework/kernels/cpu_matrix.h"
#include "tests/framework/kernels/instruction_sets.h"

using namespace tapeformer;
using namespace tapeformer::kernels;
using test::Matrix;

namespace {

constexpr int64_t heads = 2;

// Element (r, c) of the convolution, r in a sequence of `packing`.
double convolved(const Packing& packing, const Matrix& x, const Matrix& w, bool reversed, int64_t r, int64_t c) {
  const int64_t place = packing.positions()[size_t(r)], first = r - place, taps = w.columns();
  int64_t n = 0;
  for (int b = 0; b < packing.sequences(); ++b)
    if (packing.offsets()[size_t(b)] == first && packing.length(b) > 0) n = packing.length(b);
  double sum = 0;
  for (int64_t t = 0; t < taps; ++t)
    if (const int64_t j = place + t - (taps - 1) / 2; j >= 0 && j < n)
      sum += w.at(c * heads / x.columns(), reversed ? taps - 1 - t : t) * x.at(first + j, c);
  return sum;
}

void check(const Packing& packing, int64_t width, int64_t taps) {
  CAPTURE(width, taps);
  ThreadPool pool(2);
  const Execution on{Device::cpu, &pool};
  Matrix x(packing.rows(), heads * width, 1), w(heads, taps, 2), y(packing.rows(), heads * width, 3), dw(heads, taps, 4);
  for (const bool reversed : {false, true}) {
    DepthwiseConv<float>::cpu(on, packing, x.view(), w.view(), reversed, y.view(), Write::overwrite);
    CHECK(test::error(y, [&](int64_t r, int64_t c) { return convolved(packing, x, w, reversed, r, c); }) < 2e-6);
  }
  DepthwiseConv<float>::cpu(on, packing, x.view(), w.view(), true, y.view(), Write::add);
  CHECK(test::error(y, [&](int64_t r, int64_t c) { return 2 * convolved(packing, x, w, true, r, c); }) < 2e-6);
  CHECK(y.gaps_untouched());
  const Matrix before = dw;
  DepthwiseConvWeight<float>::cpu(on, packing, x.view(), y.view(), dw.view());
  CHECK(test::error(dw, [&](int64_t h, int64_t t) {
          double sum = before.at(h, t);
          Matrix one(heads, taps, 0, 0);
          one.view().row(h)[t] = 1;
          for (int64_t r = 0; r < packing.rows(); ++r)
            for (int64_t c = h * width; c < (h + 1) * width; ++c) sum += y.at(r, c) * convolved(packing, x, one, false, r, c);
          return sum;
        }) < 2e-5);
}

}  // namespace

TEST_CASE("cpu convolution along positions equals the double loops on every instruction set", "[cpu][depthwise_conv]") {
  test::for_each_instruction_set([](const std::string& instructions) {
    INFO(instructions);
    const Packing packing({1, 0, 30, 7, 2}, {0, 1, 2, 3, 4});
    for (const int64_t width : {1, 7, 16, 33}) check(packing, width, 5);
    for (const int64_t taps : {1, 9, 17, 33}) check(packing, 8, taps);
    check(Packing({520, 515}, {0, 1}), 3, 7);  // more rows than a task has
  });
}
