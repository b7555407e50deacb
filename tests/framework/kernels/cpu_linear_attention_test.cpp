// SPDX-License-Identifier: Apache-2.0
// Linear attention of the cpu device against the dense matrix f(q_i)' f(k_j) in double, for uneven lengths and all head sizes, and the
// promises about bytes: threads and batch mates change none.
#include "framework/kernels/linear_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "framework/core/parallel.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::kernels;

namespace {

constexpr double epsilon = 1e-6;

// q, k, v are columns of one array and start at an odd float.
struct Batch {
  Packing packing;
  int heads, dim;
  std::vector<float> inputs, d_o;

  Batch(const std::vector<int32_t>& lengths, std::vector<uint32_t> samples, int heads, int dim)
      : packing(lengths, std::move(samples)), heads(heads), dim(dim) {
    const auto rows = static_cast<size_t>(packing.rows());
    inputs.resize(rows * stride() + 1);
    d_o.resize(rows * width() + 1);
    for (size_t r = 0; r < rows; ++r) {
      std::mt19937 generator(packing.row_samples()[r] * 100003u + static_cast<uint32_t>(packing.positions()[r]));
      std::normal_distribution<float> normal;
      for (size_t c = 0; c < stride(); ++c) inputs[1 + r * stride() + c] = normal(generator) * 1.5f;
      for (size_t c = 0; c < width(); ++c) d_o[1 + r * width() + c] = normal(generator) - 0.125f;
    }
  }
  size_t width() const { return static_cast<size_t>(heads * dim); }
  size_t stride() const { return 3 * width() + 1; }
  View<const float> input(int which) const {
    return {inputs.data() + 1 + static_cast<size_t>(which) * width(), packing.rows(), static_cast<int64_t>(width()),
            static_cast<int64_t>(stride())};
  }
  LinearAttentionCall<float> call() const {
    LinearAttentionCall<float> c;
    c.packing = &packing;
    c.heads = heads;
    c.head_dim = dim;
    c.epsilon = epsilon;
    c.q = input(0);
    c.k = input(1);
    c.v = input(2);
    return c;
  }
};

struct Result {
  size_t rows, width, stride;
  std::vector<float> o, state, denominator, gradients;
  explicit Result(const Batch& b)
      : rows(static_cast<size_t>(b.packing.rows())),
        width(b.width()),
        stride(b.stride()),
        o(rows * width + 1, -77.f),
        state(static_cast<size_t>(b.packing.sequences()) * width * static_cast<size_t>(b.dim + 1), -77.f),
        denominator(rows * static_cast<size_t>(b.heads), -77.f),
        gradients(rows * stride + 1, -77.f) {}
  View<float> output() { return {o.data() + 1, static_cast<int64_t>(rows), static_cast<int64_t>(width), static_cast<int64_t>(width)}; }
  View<float> gradient(int which) {
    return {gradients.data() + 1 + static_cast<size_t>(which) * width, static_cast<int64_t>(rows), static_cast<int64_t>(width),
            static_cast<int64_t>(stride)};
  }
};

Result run(const Batch& b, int threads) {
  ThreadPool pool(threads);
  const Execution on{Device::cpu, &pool};
  Result r(b);
  LinearAttentionForward<float>::cpu(on, b.call(), r.output(), r.state.data(), r.denominator.data());
  const View<const float> d_o{b.d_o.data() + 1, b.packing.rows(), static_cast<int64_t>(b.width()), static_cast<int64_t>(b.width())};
  LinearAttentionBackward<float>::cpu(on, b.call(), r.output(), r.state.data(), r.denominator.data(), d_o, r.gradient(0), r.gradient(1),
                                      r.gradient(2));
  return r;
}

using Matrix = std::vector<std::vector<double>>;

double feature(double x) { return x >= 0 ? x + 1 : std::exp(x); }
double slope(double x) { return x >= 0 ? 1 : std::exp(x); }

struct Dense {
  Matrix o, dq, dk, dv, state;
  std::vector<double> denominator;
};

// With A_ij = f(q_i)' f(k_j): o_i = sum_j A_ij v_j / (sum_j A_ij + epsilon); dA_ij = <do_i, v_j - o_i> / den_i.
Dense dense(const Batch& b, int sequence, int head) {
  const auto n = static_cast<size_t>(b.packing.length(sequence)), dim = static_cast<size_t>(b.dim),
             column = static_cast<size_t>(head) * dim;
  const auto row0 = static_cast<size_t>(b.packing.offsets()[static_cast<size_t>(sequence)]);
  const auto at = [&](int which, size_t r, size_t c) {
    return static_cast<double>(b.input(which).row(static_cast<int64_t>(row0 + r))[column + c]);
  };
  const auto gradient = [&](size_t r, size_t c) { return static_cast<double>(b.d_o[1 + (row0 + r) * b.width() + column + c]); };
  const Matrix zero(n, std::vector<double>(dim));
  Dense out{zero, zero, zero, zero, Matrix(dim, std::vector<double>(dim + 1)), std::vector<double>(n, epsilon)};
  for (size_t j = 0; j < n; ++j)
    for (size_t r = 0; r < dim; ++r) {
      for (size_t c = 0; c < dim; ++c) out.state[r][c] += feature(at(1, j, r)) * at(2, j, c);
      out.state[r][dim] += feature(at(1, j, r));
    }
  std::vector<double> weight(n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      weight[j] = 0;
      for (size_t c = 0; c < dim; ++c) weight[j] += feature(at(0, i, c)) * feature(at(1, j, c));
      out.denominator[i] += weight[j];
    }
    for (size_t j = 0; j < n; ++j)
      for (size_t c = 0; c < dim; ++c) out.o[i][c] += weight[j] * at(2, j, c) / out.denominator[i];
    for (size_t j = 0; j < n; ++j) {
      double d_weight = 0;
      for (size_t c = 0; c < dim; ++c) {
        d_weight += gradient(i, c) * (at(2, j, c) - out.o[i][c]) / out.denominator[i];
        out.dv[j][c] += weight[j] / out.denominator[i] * gradient(i, c);
      }
      for (size_t c = 0; c < dim; ++c) {
        out.dq[i][c] += d_weight * feature(at(1, j, c)) * slope(at(0, i, c));
        out.dk[j][c] += d_weight * feature(at(0, i, c)) * slope(at(1, j, c));
      }
    }
  }
  return out;
}

// The largest difference relative to the largest entry, which counts as 0.01 at least.
double difference(const Matrix& want, const View<float>& got, int64_t row0, int column) {
  double most = 0.01, worst = 0;
  for (size_t r = 0; r < want.size(); ++r)
    for (size_t c = 0; c < want[r].size(); ++c) {
      const double x = static_cast<double>(got.row(row0 + static_cast<int64_t>(r))[static_cast<size_t>(column) + c]);
      if (!std::isfinite(x)) return std::numeric_limits<double>::infinity();
      most = std::max(most, std::abs(want[r][c]));
      worst = std::max(worst, std::abs(x - want[r][c]));
    }
  return worst / most;
}

void check_against_dense(const Batch& b) {
  Result r = run(b, 2);
  for (int s = 0; s < b.packing.sequences(); ++s)
    for (int h = 0; h < b.heads; ++h) {
      const Dense want = dense(b, s, h);
      const int64_t row0 = b.packing.offsets()[static_cast<size_t>(s)];
      CAPTURE(b.packing.length(s), b.dim, h);
      CHECK(difference(want.o, r.output(), row0, h * b.dim) < 1e-5);
      CHECK(difference(want.dq, r.gradient(0), row0, h * b.dim) < 1e-4);
      CHECK(difference(want.dk, r.gradient(1), row0, h * b.dim) < 1e-4);
      CHECK(difference(want.dv, r.gradient(2), row0, h * b.dim) < 1e-4);
      const View<float> state{r.state.data() + static_cast<size_t>(s * b.heads + h) * static_cast<size_t>(b.dim * (b.dim + 1)), b.dim,
                              b.dim + 1, b.dim + 1};
      CHECK(difference(want.state, state, 0, 0) < 1e-5);
      bool close = true;
      for (size_t i = 0; i < want.denominator.size(); ++i) {
        const auto got = static_cast<double>(r.denominator[static_cast<size_t>(h) * r.rows + static_cast<size_t>(row0) + i]);
        close = close && std::abs(got - want.denominator[i]) <= 1e-5 * want.denominator[i];
      }
      CHECK(close);
    }
  CHECK(r.o[0] == -77.f);
  bool untouched = r.gradients[0] == -77.f;
  for (size_t i = 0; i < r.rows; ++i) untouched = untouched && r.gradients[1 + i * r.stride + r.stride - 1] == -77.f;
  CHECK(untouched);
}

bool same_bytes(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<float> slice(Result& r, int heads, int64_t first, int64_t count) {
  std::vector<float> out;
  for (int64_t i = first; i < first + count; ++i) {
    out.insert(out.end(), r.output().row(i), r.output().row(i) + r.width);
    for (int which = 0; which < 3; ++which) out.insert(out.end(), r.gradient(which).row(i), r.gradient(which).row(i) + r.width);
    for (int h = 0; h < heads; ++h) out.push_back(r.denominator[static_cast<size_t>(h) * r.rows + static_cast<size_t>(i)]);
  }
  return out;
}

}  // namespace

TEST_CASE("cpu linear attention equals the dense form") {
  for (const int dim : {1, 5, 16, 32, 40, 64, 80})
    check_against_dense(Batch({65, 0, 1, 200, 2, 11, 63, 129, 64}, {1, 2, 3, 4, 5, 6, 7, 8, 9}, 2, dim));
}

TEST_CASE("cpu linear attention adds the states of the chunks of a long sequence") {
  check_against_dense(Batch({1100, 512, 513}, {3, 1, 2}, 1, 6));
}

TEST_CASE("cpu linear attention gives the same bytes on any number of threads") {
  const Batch b({1500, 7, 300, 64, 0, 2300, 31}, {1, 2, 3, 4, 5, 6, 7}, 2, 16);
  const Result one = run(b, 1);
  for (const int threads : {2, 3, 8}) {
    const Result many = run(b, threads);
    CHECK(same_bytes(one.o, many.o));
    CHECK(same_bytes(one.state, many.state));
    CHECK(same_bytes(one.denominator, many.denominator));
    CHECK(same_bytes(one.gradients, many.gradients));
  }
}

TEST_CASE("cpu linear attention of a sequence does not depend on its batch mates, even if they are NaN") {
  for (const int length : {1, 11, 64, 129, 1100}) {
    const Batch alone({length}, {42}, 2, 20);
    Batch middle({37, 200, length, 5}, {1, 2, 42, 3}, 2, 20);
    const Batch last({length + 1, length}, {8, 42}, 2, 20);
    for (size_t r = 0; r < 200; ++r) middle.inputs[1 + r * middle.stride()] = std::numeric_limits<float>::quiet_NaN();
    Result a = run(alone, 1), m = run(middle, 2), l = run(last, 3);
    const std::vector<float> want = slice(a, 2, 0, length);
    CHECK(same_bytes(want, slice(m, 2, 237, length)));
    CHECK(same_bytes(want, slice(l, 2, length + 1, length)));
    CHECK(std::none_of(want.begin(), want.end(), [](float x) { return std::isnan(x); }));
    CHECK(std::isnan(m.output().row(0)[0]));
  }
}

TEST_CASE("cpu linear attention keeps small features of very negative channels and large positive ones") {
  Batch b({70}, {1}, 1, 4);
  for (size_t r = 0; r < 70; ++r) {
    b.inputs[1 + r * b.stride()] = -20.f - 0.1f * static_cast<float>(r);
    b.inputs[1 + r * b.stride() + b.width() + 1] = 200.f;
  }
  check_against_dense(b);
}

TEST_CASE("cpu linear attention of an empty sequence has the state 0") {
  const Result r = run(Batch({0, 3}, {1, 2}, 1, 5), 1);
  CHECK(std::all_of(r.state.begin(), r.state.begin() + 30, [](float x) { return x == 0; }));
}
