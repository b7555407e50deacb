// SPDX-License-Identifier: Apache-2.0
// Masks, row lists and merged parts on the cpu device: equal to the reference device's double for every instruction set, the same bytes on
// any number of threads and beside any batch mates, and nothing written that no plan lists.
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "framework/core/parallel.h"
#include "framework/core/random.h"
#include "framework/kernels/attention.h"
#include "tests/framework/kernels/instruction_sets.h"
#include "tests/support/catch.h"
#include "tests/support/plans.h"

using namespace tapeformer;
using namespace tapeformer::kernels;

namespace {

// Whether query i may use key j in the part; every pair is in one of the parts, or in none.
bool in_part(int part, int parts, int i, int j) {
  return i % 11 != 3 && (i * 7 + j * 13 + i * j) % 5 != 0 && (i / 3 + j / 5) % parts == part;
}

// The rows in an order of their own for each part, without some that have no pair in it.
std::vector<int32_t> order_of(int rows, int part) {
  std::vector<int32_t> out;
  for (int r = 0; r < rows; ++r)
    if (r % 11 != 3) out.push_back(r);
  std::mt19937 generator(static_cast<uint32_t>(rows * 8 + part));
  std::shuffle(out.begin(), out.end(), generator);
  return out;
}

PlanPointer plan_of(int rows, int part, int parts) {
  const std::vector<int32_t> queries = order_of(rows, part);
  std::vector<int32_t> keys(static_cast<size_t>(rows));
  std::iota(keys.begin(), keys.end(), 0);
  std::mt19937 generator(static_cast<uint32_t>(rows * 16 + part));
  std::shuffle(keys.begin(), keys.end(), generator);
  TilePlan plan = test::plan_of_pairs(static_cast<int32_t>(queries.size()), rows, [&](int32_t i, int32_t j) {
    return in_part(part, parts, queries[static_cast<size_t>(i)], keys[static_cast<size_t>(j)]);
  });
  plan.query_rows = queries;
  plan.key_rows = keys;
  return std::make_shared<const TilePlan>(std::move(plan));
}

struct Batch {
  Packing packing;
  std::vector<std::vector<PlanPointer>> parts;
  int heads, dim;
  std::vector<float> inputs, d_o;  // q, k, v side by side
  std::vector<uint64_t> keys;

  Batch(const std::vector<int32_t>& lengths, const std::vector<uint32_t>& samples, int heads, int dim, int count)
      : packing(lengths, samples), parts(static_cast<size_t>(count)), heads(heads), dim(dim) {
    for (int p = 0; p < count; ++p)
      for (const int n : lengths) parts[static_cast<size_t>(p)].push_back(plan_of(n, p, count));
    for (int h = 0; h < heads; ++h) keys.push_back(random_key(7, "attention_dropout", "test", h));
    for (size_t r = 0; r < static_cast<size_t>(packing.rows()); ++r) {
      std::mt19937 generator(packing.row_samples()[r] * 100003u + static_cast<uint32_t>(packing.positions()[r]));
      std::normal_distribution<float> normal;
      for (size_t c = 0; c < 3 * width(); ++c) inputs.push_back(normal(generator));
      for (size_t c = 0; c < width(); ++c) d_o.push_back(normal(generator));
    }
  }
  size_t width() const { return static_cast<size_t>(heads * dim); }
};

template <class T>
struct Result {
  std::vector<T> o, lse, gradients;
};

template <class T>
Result<T> run(const Batch& b, const Execution& on, double dropout) {
  const auto rows = static_cast<size_t>(b.packing.rows());
  const std::vector<T> inputs(b.inputs.begin(), b.inputs.end()), d_o(b.d_o.begin(), b.d_o.end());
  Result<T> r{std::vector<T>(rows * b.width(), T{-77}), std::vector<T>(rows * static_cast<size_t>(b.heads), T{-77}),
              std::vector<T>(rows * 3 * b.width(), T{-77})};
  const auto third = [&](auto* data, size_t which) {
    return View<std::remove_pointer_t<decltype(data)>>{data + which * b.width(), b.packing.rows(), static_cast<int64_t>(b.width()),
                                                       static_cast<int64_t>(3 * b.width())};
  };
  const auto whole = [&](auto* data) {
    return View<std::remove_pointer_t<decltype(data)>>{data, b.packing.rows(), static_cast<int64_t>(b.width()),
                                                       static_cast<int64_t>(b.width())};
  };
  AttentionCall<T> call;
  call.queries = call.keys = &b.packing;
  call.heads = b.heads;
  call.head_dim = b.dim;
  call.scale = 0.4;
  call.q = third(inputs.data(), 0);
  call.k = third(inputs.data(), 1);
  call.v = third(inputs.data(), 2);
  call.dropout_keys = b.keys.data();
  call.dropout.threshold = dropout_threshold(dropout);
  call.dropout.scale = 1 / (1 - dropout);
  call.dropout.step = 5;
  for (const auto direction : {0, 1})
    for (size_t p = 0; p < b.parts.size(); ++p) {
      call.plans = b.parts[p];
      const Write write = p == 0 ? Write::overwrite : Write::add;
      const View<T> dq = third(r.gradients.data(), 0), dk = third(r.gradients.data(), 1), dv = third(r.gradients.data(), 2);
      const View<const T> o = whole(r.o.data()), gradient = whole(d_o.data());
      if constexpr (std::is_same_v<T, double>) {
        if (direction == 0) AttentionForward<T>::reference(on, call, whole(r.o.data()), r.lse.data(), write);
        else AttentionBackward<T>::reference(on, call, o, r.lse.data(), gradient, dq, dk, dv, write);
      } else {
        if (direction == 0) AttentionForward<T>::cpu(on, call, whole(r.o.data()), r.lse.data(), write);
        else AttentionBackward<T>::cpu(on, call, o, r.lse.data(), gradient, dq, dk, dv, write);
      }
    }
  return r;
}

Result<float> on_cpu(const Batch& b, int threads, double dropout) {
  ThreadPool pool(threads);
  return run<float>(b, {Device::cpu, &pool}, dropout);
}

double distance(const std::vector<double>& want, const std::vector<float>& got) {
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const auto x = static_cast<double>(got[i]);
    if (std::isinf(want[i]) && x == want[i]) continue;
    worst = std::max(worst, std::isfinite(x) ? std::abs(x - want[i]) / (1 + std::abs(want[i])) : 1e30);
  }
  return worst;
}

bool same_bytes(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// What a result holds of the rows [first, first + count).
std::vector<float> slice(const Result<float>& r, const Batch& b, size_t first, size_t count) {
  const auto rows = static_cast<size_t>(b.packing.rows());
  std::vector<float> out;
  for (size_t i = first; i < first + count; ++i) {
    for (size_t c = 0; c < b.width(); ++c) out.push_back(r.o[i * b.width() + c]);
    for (size_t c = 0; c < 3 * b.width(); ++c) out.push_back(r.gradients[i * 3 * b.width() + c]);
    for (size_t h = 0; h < static_cast<size_t>(b.heads); ++h) out.push_back(r.lse[h * rows + i]);
  }
  return out;
}

}  // namespace

TEST_CASE("cpu attention over listed rows, masks and parts equals the reference on every instruction set", "[cpu]") {
  for (const int dim : {3, 16, 40})
    for (const double dropout : {0.0, 0.3}) {
      const Batch b({65, 0, 1, 129, 63, 64, 200}, {1, 2, 3, 4, 5, 6, 7}, 2, dim, 3);
      const Result<double> want = run<double>(b, {Device::reference, nullptr}, dropout);
      test::for_each_instruction_set([&](const std::string& name) {
        INFO(name << " head_dim " << dim << " dropout " << dropout);
        const Result<float> got = on_cpu(b, 2, dropout);
        CHECK(distance(want.o, got.o) < 1e-5);
        CHECK(distance(want.lse, got.lse) < 1e-5);
        CHECK(distance(want.gradients, got.gradients) < 1e-4);
      });
    }
}

TEST_CASE("cpu attention over parts gives the same bytes on any number of threads", "[cpu]") {
  const Batch b({1300, 7, 300, 0, 64}, {1, 2, 3, 4, 5}, 2, 16, 2);
  const Result<float> one = on_cpu(b, 1, 0.1);
  for (const int threads : {2, 3, 8}) {
    const Result<float> many = on_cpu(b, threads, 0.1);
    CHECK(same_bytes(one.o, many.o));
    CHECK(same_bytes(one.lse, many.lse));
    CHECK(same_bytes(one.gradients, many.gradients));
  }
}

TEST_CASE("cpu attention over parts of a sequence does not depend on its batch mates, even if they are NaN", "[cpu]") {
  for (const int length : {1, 64, 129}) {
    const Batch alone({length}, {42}, 2, 20, 2);
    Batch middle({37, 200, length, 5}, {1, 2, 42, 3}, 2, 20, 2);
    for (size_t i = 0; i < 237 * 3 * middle.width(); ++i) middle.inputs[i] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> want = slice(on_cpu(alone, 1, 0.2), alone, 0, static_cast<size_t>(length));
    CHECK(same_bytes(want, slice(on_cpu(middle, 3, 0.2), middle, 237, static_cast<size_t>(length))));
  }
}

TEST_CASE("a NaN passes through the merge of parts", "[cpu]") {
  Batch b({70}, {1}, 1, 8, 2);
  b.inputs[5 * 3 * b.width()] = std::numeric_limits<float>::quiet_NaN();  // of query 5
  const Result<float> got = on_cpu(b, 1, 0);
  CHECK(std::isnan(got.o[5 * b.width()]));
  CHECK(std::isnan(got.lse[5]));
  CHECK(std::isfinite(got.o[6 * b.width()]));
}
