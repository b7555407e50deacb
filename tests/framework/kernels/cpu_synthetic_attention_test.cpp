// SPDX-License-Identifier: Apache-2.0
// Synthetic attention on the cpu device: equal to the reference device on every instruction set, the same bytes for any threads, and for the
// forward beside any batch mates.
#include "framework/core/random.h"
#include "framework/kernels/synthetic_attention.h"
#include "tests/framework/kernels/cpu_matrix.h"
#include "tests/framework/kernels/instruction_sets.h"

using namespace tapeformer;
using namespace tapeformer::kernels;
using test::Matrix;

namespace {

constexpr int heads = 2, dim = 5, most = 130, inner = 12, outer = 11;

struct Batch {
  Packing packing;
  Matrix table{heads * most, most, 1}, first, second, q, k, v, d_o;
  uint64_t keys[heads] = {random_key(3, "attention_dropout", "test", 0), random_key(3, "attention_dropout", "test", 1)};

  explicit Batch(const std::vector<int32_t>& lengths)
      : packing(lengths, std::vector<uint32_t>(lengths.size(), 7)), first(packing.rows(), heads * inner, 2), second(packing.rows(), heads * outer, 3),
        q(packing.rows(), heads * dim, 4), k(packing.rows(), heads * dim, 5), v(packing.rows(), heads * dim, 6), d_o(packing.rows(), heads * dim, 7) {}
  bool causal = false;

  SyntheticCall<float> call(double dropout) {
    SyntheticCall<float> c{&packing, heads, dim, most, table.view(), inner, outer, first.view(), second.view(), 0.5, q.view(), k.view(), v.view(), keys, {}};
    c.dropout.threshold = dropout_threshold(dropout);
    c.dropout.scale = 1 / (1 - dropout);
    c.dropout.step = 5;
    c.causal = causal;
    return c;
  }
};

struct Result {
  Matrix o, table, first, second, q, k, v;
  explicit Result(const Batch& b)
      : o(b.packing.rows(), heads * dim, 11), table(heads * most, most, 12), first(b.packing.rows(), heads * inner, 13),
        second(b.packing.rows(), heads * outer, 14), q(b.packing.rows(), heads * dim, 15), k(b.packing.rows(), heads * dim, 16),
        v(b.packing.rows(), heads * dim, 17) {}
  SyntheticGradients<float> gradients() { return {table.view(), first.view(), second.view(), q.view(), k.view(), v.view()}; }
  std::vector<Matrix*> all() { return {&o, &table, &first, &second, &q, &k, &v}; }
};

Result on_cpu(Batch& b, double dropout, int threads) {
  ThreadPool pool(threads);
  Result r(b);
  SyntheticForward<float>::cpu({Device::cpu, &pool}, b.call(dropout), r.o.view());
  SyntheticBackward<float>::cpu({Device::cpu, &pool}, b.call(dropout), b.d_o.view(), r.gradients());
  return r;
}

}  // namespace

TEST_CASE("cpu synthetic attention equals the reference on every instruction set", "[cpu][synthetic_attention]") {
  Batch b({1, 130, 0, 47, 49});
  b.causal = GENERATE(false, true);
  for (const double dropout : {0.0, 0.3}) {
    Result expected(b);
    SyntheticForward<float>::reference({Device::reference, nullptr}, b.call(dropout), expected.o.view());
    SyntheticBackward<float>::reference({Device::reference, nullptr}, b.call(dropout), b.d_o.view(), expected.gradients());
    test::for_each_instruction_set([&](const std::string& instructions) {
      INFO(instructions << ", dropout " << dropout << ", causal " << b.causal);
      Result r = on_cpu(b, dropout, 2);
      for (size_t i = 0; i < r.all().size(); ++i) {
        INFO("array " << i);
        CHECK(test::error(*r.all()[i], [&](int64_t row, int64_t column) { return expected.all()[i]->at(row, column); }) < 1e-5);
        CHECK(r.all()[i]->gaps_untouched());
      }
    });
  }
}

TEST_CASE("cpu synthetic attention has the same bytes for any threads and neighbours", "[cpu][synthetic_attention]") {
  Batch b({130, 3, 70});
  b.causal = GENERATE(false, true);
  Result one = on_cpu(b, 0.3, 1);
  for (const int threads : test::thread_counts()) {
    Result other = on_cpu(b, 0.3, threads);
    for (size_t i = 0; i < one.all().size(); ++i) CHECK(one.all()[i]->same_bytes(*other.all()[i]));
  }
  b.v.view().row(4)[1] = NAN;
  b.first.view().row(5)[1] = NAN;
  Result beside = on_cpu(b, 0.3, 2);
  for (int64_t r = 130; r < 203; ++r)
    for (int64_t c = 0; c < heads * dim; ++c) {
      CHECK(beside.o.at(r, c) == one.o.at(r, c));
      CHECK(beside.v.at(r, c) == one.v.at(r, c));
    }
}
