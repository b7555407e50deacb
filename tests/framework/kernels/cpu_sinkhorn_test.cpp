// SPDX-License-Identifier: Apache-2.0
// Sinkhorn matrices and mixed blocks on the cpu device: equal to the reference device on every instruction set, the same bytes for any
// threads and batch mates.
#include <limits>

#include "framework/kernels/sinkhorn.h"
#include "framework/kernels/sorted_blocks.h"
#include "tests/framework/kernels/cpu_matrix.h"
#include "tests/framework/kernels/instruction_sets.h"

using namespace tapeformer;
using namespace tapeformer::kernels;
using test::Matrix;

namespace {

struct Batch {
  Packing sequences, blocks;
  int32_t block;
  int heads = 2, dim;
  int64_t width;
  Matrix scores, noise, x, dout;

  Batch(const std::vector<int32_t>& lengths, int32_t block, int dim, bool own)
      : sequences(lengths, std::vector<uint32_t>(lengths.size())), blocks(counts(lengths, block), std::vector<uint32_t>(lengths.size())), block(block),
        dim(dim), width(blocks.longest() + 1), scores(blocks.rows(), heads * width, 1), noise(blocks.rows(), heads * width, 2),
        x(sequences.rows(), heads * dim, 3), dout(blocks.rows() * block + (own ? sequences.rows() : 0), heads * dim, 4) {}
  static std::vector<int32_t> counts(const std::vector<int32_t>& lengths, int32_t block) {
    std::vector<int32_t> out;
    for (const int32_t n : lengths) out.push_back((n + block - 1) / block);
    return out;
  }
  bool causal = false;
  SinkhornCall call() const { return {&blocks, heads, width, 0.75, 6, causal}; }
  SortedBlocksCall mix(bool own) const { return {&sequences, &blocks, block, heads, dim, width, 1000, own}; }
};

struct Result {
  Matrix p, rows, weights, dp, dx, dscores;
};

template <class Run>
Result run(Batch& b, bool own, const Run& device) {
  Result r{Matrix(b.blocks.rows(), b.heads * b.width, 5), Matrix(b.dout.rows(), b.dout.columns(), 6), Matrix(b.blocks.rows(), 2 * b.heads, 7),
           Matrix(b.blocks.rows(), b.heads * b.width, 8), Matrix(b.x.rows(), b.x.columns(), 9), Matrix(b.blocks.rows(), b.heads * b.width, 10)};
  device(b, own, r);
  return r;
}
void on_cpu(ThreadPool& pool, Batch& b, bool own, Result& r) {
  const Execution on{Device::cpu, &pool};
  SinkhornForward<float>::cpu(on, b.call(), b.scores.view(), b.noise.view(), r.p.view());
  SortedBlocksForward<float>::cpu(on, b.mix(own), r.p.view(), b.x.view(), r.rows.view(), r.weights.view());
  SortedBlocksBackward<float>::cpu(on, b.mix(own), r.p.view(), b.x.view(), b.dout.view(), r.dp.view(), Write::overwrite, r.dx.view());
  SinkhornBackward<float>::cpu(on, b.call(), b.scores.view(), b.noise.view(), r.dp.view(), r.dscores.view(), Write::add);
}
void on_reference(Batch& b, bool own, Result& r) {
  const Execution on{Device::reference, nullptr};
  SinkhornForward<float>::reference(on, b.call(), b.scores.view(), b.noise.view(), r.p.view());
  SortedBlocksForward<float>::reference(on, b.mix(own), r.p.view(), b.x.view(), r.rows.view(), r.weights.view());
  SortedBlocksBackward<float>::reference(on, b.mix(own), r.p.view(), b.x.view(), b.dout.view(), r.dp.view(), Write::overwrite, r.dx.view());
  SinkhornBackward<float>::reference(on, b.call(), b.scores.view(), b.noise.view(), r.dp.view(), r.dscores.view(), Write::add);
}

std::vector<std::pair<const char*, Matrix Result::*>> fields() {
  return {{"p", &Result::p}, {"rows", &Result::rows}, {"weights", &Result::weights}, {"dp", &Result::dp}, {"dx", &Result::dx}, {"dscores", &Result::dscores}};
}

}  // namespace

TEST_CASE("cpu sorting of blocks equals the reference on every instruction set", "[cpu][sinkhorn]") {
  test::for_each_instruction_set([](const std::string& instructions) {
    INFO(instructions);
    ThreadPool pool(2);
    for (const auto& [block, dim] : std::vector<std::pair<int32_t, int>>{{1, 4}, {4, 16}, {33, 5}, {64, 8}})
      for (const auto& [own, causal] : {std::pair(true, false), {false, false}, {true, true}}) {
        Batch b({130, 1, 0, 64, 65, 7}, block, dim, own);
        b.causal = causal;
        Result cpu = run(b, own, [&](Batch& x, bool o, Result& r) { on_cpu(pool, x, o, r); });
        Result reference = run(b, own, on_reference);
        for (const auto& [name, field] : fields()) {
          INFO(name << ", blocks of " << block << ", own " << own << ", causal " << causal);
          const Matrix& expected = reference.*field;
          CHECK(test::error(cpu.*field, [&](int64_t r, int64_t c) { return expected.at(r, c); }) < 2e-5);
          CHECK((cpu.*field).gaps_untouched());
        }
      }
  });
}

TEST_CASE("cpu sorting of blocks has the same bytes for any threads and neighbours", "[cpu][sinkhorn]") {
  Batch b({130, 1, 64, 200}, 16, 8, true);
  const auto with = [&](int threads) {
    ThreadPool pool(threads);
    return run(b, true, [&](Batch& x, bool o, Result& r) { on_cpu(pool, x, o, r); });
  };
  const Result one = with(1);
  for (const int threads : test::thread_counts()) {
    const Result other = with(threads);
    for (const auto& [name, field] : fields()) CHECK((one.*field).same_bytes(other.*field));
  }
  // The last sequence beside one that is NaN.
  for (int64_t c = 0; c < b.x.columns(); ++c) b.x.view().row(5)[c] = std::numeric_limits<float>::quiet_NaN();
  for (int64_t c = 0; c < b.scores.columns(); ++c) b.scores.view().row(2)[c] = std::numeric_limits<float>::quiet_NaN();
  const Result beside = with(2);
  const auto rows_from = [](const Matrix& m, int64_t first) {
    std::vector<double> out;
    for (int64_t r = first; r < m.rows(); ++r)
      for (int64_t c = 0; c < m.columns(); ++c) out.push_back(m.at(r, c));
    return out;
  };
  CHECK(rows_from(one.p, 14) == rows_from(beside.p, 14));
  CHECK(rows_from(one.dscores, 14) == rows_from(beside.dscores, 14));
  CHECK(rows_from(one.dx, 195) == rows_from(beside.dx, 195));
  CHECK(rows_from(one.rows, one.rows.rows() - 200) == rows_from(beside.rows, one.rows.rows() - 200));
  CHECK(std::isnan(beside.p.at(0, 0)));
}
