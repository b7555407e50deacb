// SPDX-License-Identifier: Apache-2.0
// Softmax attention of the cpu device against dense double attention written from the formulas, for uneven lengths, all head sizes, full,
// band and blocked plans, dropout, and the promises about bytes: threads and batch mates change none.
#include "framework/kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "framework/core/parallel.h"
#include "framework/core/random.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::kernels;

namespace {

using Allowed = std::function<bool(int, int)>;  // (query, key)

struct Pattern {
  const char* name;
  std::function<TilePlan(int)> plan;
  Allowed allowed;
};

Pattern full() {
  return {"full", [](int n) { return full_plan(n, n); }, [](int, int) { return true; }};
}
Pattern band(int left, int right) {
  const auto plan = [=](int n) {
    std::vector<int32_t> first, end;
    for (int i = 0; i < n; ++i) first.push_back(i - left), end.push_back(i + right + 1);
    return interval_plan(n, first, end);
  };
  return {"band", plan, [=](int i, int j) { return j >= i - left && j <= i + right; }};
}
Pattern blocked(int block) {
  const auto plan = [=](int n) {
    std::vector<int32_t> first, end;
    for (int i = 0; i < n; ++i) first.push_back((i / block - 1) * block), end.push_back((i / block + 2) * block);
    return interval_plan(n, first, end);
  };
  return {"blocked", plan, [=](int i, int j) { return std::abs(i / block - j / block) <= 1; }};
}
// Every fourth query sees no key; the others see the keys before them.
Pattern with_empty_rows() {
  const auto plan = [](int n) {
    std::vector<int32_t> first(static_cast<size_t>(n)), end;
    for (int i = 0; i < n; ++i) end.push_back(i % 4 == 1 ? 0 : i + 1);
    return interval_plan(n, first, end);
  };
  return {"empty rows", plan, [](int i, int j) { return i % 4 != 1 && j <= i; }};
}

// One batch: q, k, v are columns of one array, so their rows are strided, and start at an odd float, so that nothing is aligned.
struct Batch {
  Packing packing;
  std::vector<PlanPointer> plans;
  int heads, dim;
  double p = 0;
  std::vector<float> inputs, d_o;
  std::vector<uint64_t> keys;

  Batch(const std::vector<int32_t>& lengths, std::vector<uint32_t> samples, int heads, int dim, const Pattern& pattern)
      : packing(lengths, std::move(samples)), heads(heads), dim(dim) {
    for (const int n : lengths) plans.push_back(std::make_shared<TilePlan>(pattern.plan(n)));
    const auto rows = static_cast<size_t>(packing.rows());
    inputs.resize(rows * stride() + 1);
    d_o.resize(rows * width() + 1);
    for (int h = 0; h < heads; ++h) keys.push_back(random_key(7, "attention_dropout", "test", h));
    // Values are functions of (sample, row, column), so a sequence is the same in any batch.
    for (size_t r = 0; r < rows; ++r) {
      std::mt19937 generator(packing.row_samples()[r] * 100003u + static_cast<uint32_t>(packing.positions()[r]));
      std::normal_distribution<float> normal;
      for (size_t c = 0; c < stride(); ++c) inputs[1 + r * stride() + c] = normal(generator) + 0.25f;
      for (size_t c = 0; c < width(); ++c) d_o[1 + r * width() + c] = normal(generator) - 0.125f;
    }
  }
  size_t width() const { return static_cast<size_t>(heads * dim); }
  size_t stride() const { return 3 * width() + 1; }
  View<const float> input(int which) const {
    return {inputs.data() + 1 + static_cast<size_t>(which) * width(), packing.rows(), static_cast<int64_t>(width()),
            static_cast<int64_t>(stride())};
  }
  AttentionCall<float> call() const {
    AttentionCall<float> c;
    c.queries = c.keys = &packing;
    c.plans = plans;
    c.heads = heads;
    c.head_dim = dim;
    c.scale = 1 / std::sqrt(static_cast<double>(dim));
    c.q = input(0);
    c.k = input(1);
    c.v = input(2);
    c.dropout_keys = keys.data();
    c.dropout.threshold = dropout_threshold(p);
    c.dropout.scale = 1 / (1 - p);
    c.dropout.step = 5;
    return c;
  }
};

// Gradients are written into strided views as well.
struct Result {
  size_t rows, width, stride;
  std::vector<float> o, lse, gradients;
  explicit Result(const Batch& b)
      : rows(static_cast<size_t>(b.packing.rows())),
        width(b.width()),
        stride(b.stride()),
        o(rows * width + 1, -77.f),
        lse(rows * static_cast<size_t>(b.heads), -77.f),
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
  AttentionForward<float>::cpu(on, b.call(), r.output(), r.lse.data(), Write::overwrite);
  const View<const float> d_o{b.d_o.data() + 1, b.packing.rows(), static_cast<int64_t>(b.width()), static_cast<int64_t>(b.width())};
  AttentionBackward<float>::cpu(on, b.call(), r.output(), r.lse.data(), d_o, r.gradient(0), r.gradient(1), r.gradient(2), Write::overwrite);
  return r;
}

using Matrix = std::vector<std::vector<double>>;

// Dense attention of one head of one sequence.
struct Dense {
  Matrix o, dq, dk, dv;
  std::vector<double> lse;
};
Dense dense(const Batch& b, int sequence, int head, const Allowed& allowed) {
  const auto n = static_cast<size_t>(b.packing.length(sequence)), dim = static_cast<size_t>(b.dim);
  const int64_t row0 = b.packing.offsets()[static_cast<size_t>(sequence)];
  const auto at = [&](int which, size_t r, size_t c) {
    if (which == 3)
      return static_cast<double>(b.d_o[1 + (static_cast<size_t>(row0) + r) * b.width() + static_cast<size_t>(head) * dim + c]);
    return static_cast<double>(b.input(which).row(row0 + static_cast<int64_t>(r))[static_cast<size_t>(head) * dim + c]);
  };
  const double scale = 1 / std::sqrt(static_cast<double>(dim)), kept = 1 / (1 - b.p);
  const Draw draw{b.keys[static_cast<size_t>(head)], b.packing.sample_ids()[static_cast<size_t>(sequence)], 5};
  const Matrix zero(n, std::vector<double>(dim));
  Dense out{zero, zero, zero, zero, std::vector<double>(n, std::numeric_limits<double>::infinity())};
  std::vector<double> probability(n), factor(n), gradient(n);
  for (size_t i = 0; i < n; ++i) {
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    std::vector<double> score(n, top);
    for (size_t j = 0; j < n; ++j)
      if (allowed(static_cast<int>(i), static_cast<int>(j))) {
        score[j] = 0;
        for (size_t c = 0; c < dim; ++c) score[j] += at(0, i, c) * at(1, j, c) * scale;
        top = std::max(top, score[j]);
      }
    if (std::isinf(top)) continue;
    for (size_t j = 0; j < n; ++j) sum += std::exp(score[j] - top);
    out.lse[i] = top + std::log(sum);
    double delta = 0;
    for (size_t j = 0; j < n; ++j) {
      probability[j] = std::exp(score[j] - out.lse[i]);
      factor[j] = draw.word(static_cast<uint32_t>(i), static_cast<uint32_t>(j)) >= dropout_threshold(b.p) ? kept : 0;
      gradient[j] = 0;
      for (size_t c = 0; c < dim; ++c) {
        out.o[i][c] += probability[j] * factor[j] * at(2, j, c);
        out.dv[j][c] += probability[j] * factor[j] * at(3, i, c);
        gradient[j] += at(3, i, c) * at(2, j, c) * factor[j];
      }
      delta += probability[j] * gradient[j];
    }
    for (size_t j = 0; j < n; ++j)
      for (size_t c = 0; c < dim; ++c) {
        const double ds = probability[j] * (gradient[j] - delta) * scale;
        out.dq[i][c] += ds * at(1, j, c);
        out.dk[j][c] += ds * at(0, i, c);
      }
  }
  return out;
}

// The largest difference relative to the largest entry, which counts as 0.1 at least: the gradients of one allowed key are exactly 0.
double difference(const Matrix& want, const View<float>& got, int64_t row0, int column) {
  double most = 0.1, worst = 0;
  for (size_t r = 0; r < want.size(); ++r)
    for (size_t c = 0; c < want[r].size(); ++c) {
      const double x = static_cast<double>(got.row(row0 + static_cast<int64_t>(r))[static_cast<size_t>(column) + c]);
      most = std::max(most, std::abs(want[r][c]));
      worst = std::isfinite(x) ? std::max(worst, std::abs(x - want[r][c])) : std::numeric_limits<double>::infinity();
      if (std::isinf(worst)) return worst;
    }
  return worst / most;
}

void check_against_dense(const Batch& b, const Pattern& pattern) {
  Result r = run(b, 2);
  for (int s = 0; s < b.packing.sequences(); ++s)
    for (int h = 0; h < b.heads; ++h) {
      const Dense want = dense(b, s, h, pattern.allowed);
      const int64_t row0 = b.packing.offsets()[static_cast<size_t>(s)];
      CAPTURE(pattern.name, b.packing.length(s), b.dim, h, b.p);
      CHECK(difference(want.o, r.output(), row0, h * b.dim) < 1e-5);
      CHECK(difference(want.dq, r.gradient(0), row0, h * b.dim) < 1e-4);
      CHECK(difference(want.dk, r.gradient(1), row0, h * b.dim) < 1e-4);
      CHECK(difference(want.dv, r.gradient(2), row0, h * b.dim) < 1e-4);
      bool close = true;
      for (size_t i = 0; i < want.lse.size(); ++i) {
        const auto got = static_cast<double>(r.lse[static_cast<size_t>(h) * r.rows + static_cast<size_t>(row0) + i]);
        close = close && (std::isinf(want.lse[i]) ? got == want.lse[i] : std::abs(got - want.lse[i]) < 1e-5 * (1 + std::abs(want.lse[i])));
      }
      CHECK(close);
    }
  // What lies between the views is not touched.
  CHECK(r.o[0] == -77.f);
  CHECK(r.gradients[0] == -77.f);
  bool untouched = true;
  for (size_t i = 0; i < r.rows; ++i) untouched = untouched && r.gradients[1 + i * r.stride + r.stride - 1] == -77.f;
  CHECK(untouched);
}

std::vector<uint32_t> numbered(size_t n) {
  std::vector<uint32_t> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<uint32_t>(i * 3 + 1);
  return out;
}

bool same_bytes(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Rows [first, first + count) of a result, all heads.
std::vector<float> slice(Result& r, int heads, int64_t first, int64_t count) {
  std::vector<float> out;
  for (int64_t i = first; i < first + count; ++i) {
    out.insert(out.end(), r.output().row(i), r.output().row(i) + r.width);
    for (int which = 0; which < 3; ++which) out.insert(out.end(), r.gradient(which).row(i), r.gradient(which).row(i) + r.width);
    for (int h = 0; h < heads; ++h) out.push_back(r.lse[static_cast<size_t>(h) * r.rows + static_cast<size_t>(i)]);
  }
  return out;
}

const std::vector<int32_t> uneven{65, 0, 1, 200, 2, 11, 63, 129, 64};

}  // namespace

TEST_CASE("cpu attention equals dense attention") {
  for (const int dim : {1, 5, 16, 32, 40, 64, 80})
    for (const Pattern& pattern : {full(), band(10, 70), blocked(24)}) {
      const Batch b(uneven, numbered(uneven.size()), 2, dim, pattern);
      check_against_dense(b, pattern);
    }
}

TEST_CASE("cpu attention drops the probabilities that the counter names") {
  for (const int dim : {5, 32})
    for (const Pattern& pattern : {full(), band(3, 3)}) {
      Batch b(uneven, numbered(uneven.size()), 2, dim, pattern);
      b.p = 0.3;
      check_against_dense(b, pattern);
    }
}

TEST_CASE("cpu attention gives queries without keys zeros and an infinite log-sum-exp") {
  const Pattern pattern = with_empty_rows();
  const Batch b(uneven, numbered(uneven.size()), 2, 16, pattern);
  check_against_dense(b, pattern);
  Result r = run(b, 1);
  CHECK(r.lse[1] == std::numeric_limits<float>::infinity());
  CHECK(std::all_of(r.output().row(1), r.output().row(1) + r.width, [](float x) { return x == 0; }));
  CHECK(std::all_of(r.gradient(0).row(1), r.gradient(0).row(1) + r.width, [](float x) { return x == 0; }));
}

TEST_CASE("cpu attention holds for long sequences, whose query gradients are sums of parts") {
  for (const Pattern& pattern : {full(), band(40, 40)}) {
    const Batch b({2100, 1025}, {4, 9}, 1, 5, pattern);
    check_against_dense(b, pattern);
  }
}

TEST_CASE("cpu attention gives the same bytes on any number of threads") {
  for (const Pattern& pattern : {full(), band(100, 30)}) {
    Batch b({1500, 7, 300, 64, 0, 2300, 31}, numbered(7), 2, 16, pattern);
    b.p = 0.1;
    const Result one = run(b, 1);
    for (const int threads : {2, 3, 8}) {
      const Result many = run(b, threads);
      CHECK(same_bytes(one.o, many.o));
      CHECK(same_bytes(one.lse, many.lse));
      CHECK(same_bytes(one.gradients, many.gradients));
    }
  }
}

TEST_CASE("cpu attention of a sequence does not depend on its batch mates, even if they are NaN") {
  for (const int length : {1, 11, 64, 129, 1100}) {
    const Pattern pattern = full();
    Batch alone({length}, {42}, 2, 20, pattern), middle({37, 200, length, 5}, {1, 2, 42, 3}, 2, 20, pattern);
    Batch last({length + 1, length}, {8, 42}, 2, 20, pattern);
    for (size_t r = 0; r < 200; ++r) middle.inputs[1 + r * middle.stride()] = std::numeric_limits<float>::quiet_NaN();
    alone.p = middle.p = last.p = 0.2;
    Result a = run(alone, 1), m = run(middle, 2), l = run(last, 3);
    const std::vector<float> want = slice(a, 2, 0, length);
    CHECK(same_bytes(want, slice(m, 2, 237, length)));
    CHECK(same_bytes(want, slice(l, 2, length + 1, length)));
    CHECK(std::none_of(want.begin(), want.end(), [](float x) { return std::isnan(x); }));
    CHECK(std::isnan(m.output().row(0)[0]));
  }
}

TEST_CASE("cpu attention passes a NaN of a query or key on") {
  for (const int which : {0, 1}) {
    Batch b({70}, {1}, 1, 8, full());
    b.inputs[1 + 3 * b.stride() + static_cast<size_t>(which) * b.width()] = std::numeric_limits<float>::quiet_NaN();
    Result r = run(b, 1);
    CHECK(std::isnan(r.output().row(3)[0]));
    CHECK(std::isnan(r.output().row(0)[0]) == (which == 1));
  }
}

TEST_CASE("cpu attention stays finite with large scores that rise from tile to tile") {
  const Pattern pattern = full();
  Batch b({260}, {1}, 1, 4, pattern);
  for (size_t r = 0; r < 260; ++r)
    for (size_t c = 0; c < 8; ++c) b.inputs[1 + r * b.stride() + c] *= c < 4 ? 4.f : 0.05f * static_cast<float>(r);
  check_against_dense(b, pattern);
}
