// SPDX-License-Identifier: Apache-2.0
// The running statistics of BatchNorm: their rule in training, against PyTorch's numbers, in calibration, frozen, and for batches of no
// rows.
#include "framework/nn/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "tests/support/catch.h"
#include "tests/support/devices.h"
#include "tests/support/matrix.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

Tensor rows_of(Dtype dtype, const std::vector<std::vector<double>>& rows) {
  Tensor x(Dtype::f64, {static_cast<int64_t>(rows.size()), 2});
  for (size_t r = 0; r < rows.size(); ++r) std::copy(rows[r].begin(), rows[r].end(), x.data<double>() + 2 * r);
  return dtype == Dtype::f64 ? x : x.converted(dtype);
}

// Two batches: means (3, -1) and (1, 10), unbiased variances (4, 1) and (2, 50).
Tensor first(Dtype dtype) { return rows_of(dtype, {{1, -2}, {3, -1}, {5, 0}}); }
Tensor second(Dtype dtype) { return rows_of(dtype, {{0, 5}, {2, 15}}); }

Matrix run(nn::BatchNorm& norm, const TestDevice& device, Mode mode, uint32_t step, const Tensor& x) {
  Context context{.on = device.on, .mode = mode, .seed = 1, .step = step, .dtype = device.dtype};
  return Matrix(norm.forward(context, {x, no_node}).value);
}

void check_statistics(const nn::BatchNorm& norm, std::vector<double> mean, std::vector<double> variance, int64_t batches) {
  for (size_t c = 0; c < 2; ++c) {
    CHECK(std::abs(Matrix(norm.running_mean.value).values[c] - mean[c]) <= 1e-5 * (1 + std::abs(mean[c])));
    CHECK(std::abs(Matrix(norm.running_var.value).values[c] - variance[c]) <= 1e-5 * (1 + variance[c]));
  }
  CHECK(norm.num_batches_tracked.value.data<int64_t>()[0] == batches);
}

}  // namespace

TEST_CASE("running statistics: 0.9 here is PyTorch's momentum of 0.1, the variance is unbiased", "[batch_norm]") {
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    nn::BatchNorm norm({.dtype = device.dtype}, "norm", 2, {.momentum = 0.9});
    check_statistics(norm, {0, 0}, {1, 1}, 0);
    // torch.nn.BatchNorm1d(2, momentum=0.1) after the same two batches.
    run(norm, device, Mode::train, 1, first(device.dtype));
    check_statistics(norm, {0.3, -0.1}, {1.3, 1.0}, 1);
    run(norm, device, Mode::train, 2, second(device.dtype));
    check_statistics(norm, {0.37, 0.91}, {1.37, 5.9}, 2);
    // And another momentum.
    nn::BatchNorm quick({.dtype = device.dtype}, "norm", 2, {.momentum = 0.25});
    run(quick, device, Mode::train, 1, first(device.dtype));
    check_statistics(quick, {2.25, -0.75}, {3.25, 1.0}, 1);
  }
}

TEST_CASE("training normalises by the biased variance of the batch, evaluation by the running statistics", "[batch_norm]") {
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    nn::BatchNorm norm({.dtype = device.dtype}, "norm", 2, {.momentum = 0.9, .epsilon = 1e-5});
    const Matrix trained = run(norm, device, Mode::train, 1, first(device.dtype));
    CHECK(std::abs(trained(0, 0) + 2 / std::sqrt(8.0 / 3 + 1e-5)) <= 1e-5);
    CHECK(std::abs(trained(2, 1) - 1 / std::sqrt(2.0 / 3 + 1e-5)) <= 1e-5);
    const Matrix evaluated = run(norm, device, Mode::evaluate, 1, first(device.dtype));
    CHECK(std::abs(evaluated(0, 0) - 0.7 / std::sqrt(1.3 + 1e-5)) <= 1e-5);
    check_statistics(norm, {0.3, -0.1}, {1.3, 1.0}, 1);
  }
}

TEST_CASE("a calibration gives its batches equal weight", "[batch_norm]") {
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    nn::BatchNorm norm({.dtype = device.dtype}, "norm", 2, {.momentum = 0.9});
    run(norm, device, Mode::calibrate, 1, first(device.dtype));
    check_statistics(norm, {3, -1}, {4, 1}, 1);
    run(norm, device, Mode::calibrate, 1, second(device.dtype));
    check_statistics(norm, {2, 4.5}, {3, 25.5}, 2);
  }
}

TEST_CASE("frozen statistics are used and stay, from the start, from an update on, or by name", "[batch_norm]") {
  for (const TestDevice& device : test_devices()) {
    nn::BatchNorm frozen({.dtype = device.dtype}, "norm", 2, {.freeze = true}),
        later({.dtype = device.dtype}, "norm", 2, {.freeze_from = 2}), by_name({.dtype = device.dtype}, "norm", 2, {});
    by_name.running_mean.frozen = true;
    for (nn::BatchNorm* norm : {&frozen, &by_name}) {
      const Matrix y = run(*norm, device, Mode::train, 1, second(device.dtype));
      CHECK(std::abs(y(1, 1) - 15 / std::sqrt(1 + 1e-5)) <= 1e-4);
      check_statistics(*norm, {0, 0}, {1, 1}, 0);
    }
    run(later, device, Mode::train, 1, first(device.dtype));
    check_statistics(later, {0.3, -0.1}, {1.3, 1.0}, 1);
    run(later, device, Mode::train, 2, second(device.dtype));
    check_statistics(later, {0.3, -0.1}, {1.3, 1.0}, 1);
  }
}

TEST_CASE("no rows leave the statistics alone, and one row is an error", "[batch_norm]") {
  for (const TestDevice& device : test_devices()) {
    nn::BatchNorm norm({.dtype = device.dtype}, "norm", 2, {});
    CHECK(run(norm, device, Mode::train, 1, Tensor(device.dtype, {0, 2})).rows == 0);
    check_statistics(norm, {0, 0}, {1, 1}, 0);
    CHECK_THROWS_AS(run(norm, device, Mode::train, 1, rows_of(device.dtype, {{1, 2}})), Error);
    check_statistics(norm, {0, 0}, {1, 1}, 0);
  }
}

TEST_CASE("statistics do not depend on the order of the rows, but for rounding", "[batch_norm]") {
  for (const TestDevice& device : test_devices()) {
    const int64_t rows = 301;
    const Tensor x = random_tensor(device.dtype, {rows, 2}, 4, 3, 100);
    Tensor turned(device.dtype, x.shape());
    for (int64_t r = 0; r < rows; ++r) turned.rows(rows - 1 - r, 1).copy_from(x.rows(r, 1));
    nn::BatchNorm one({.dtype = device.dtype}, "norm", 2, {}), other({.dtype = device.dtype}, "norm", 2, {});
    run(one, device, Mode::train, 1, x);
    run(other, device, Mode::train, 1, turned);
    CHECK(relative_error(Matrix(other.running_mean.value), Matrix(one.running_mean.value)) <= device.tolerance);
    CHECK(relative_error(Matrix(other.running_var.value), Matrix(one.running_var.value)) <= device.tolerance);
  }
}
