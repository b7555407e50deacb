// SPDX-License-Identifier: Apache-2.0
// Linear attention on feature maps on the cpu device: every instruction set against the reference device, long sequences in several chunks,
// threads, batch mates.
#include "framework/kernels/causal_feature_attention.h"

#include <algorithm>
#include <limits>

#include "tests/framework/kernels/cpu_matrix.h"
#include "tests/framework/kernels/instruction_sets.h"

using namespace tapeformer;
using namespace tapeformer::kernels;
using test::Matrix;

namespace {

constexpr FeatureMap maps[] = {FeatureMap::given,         FeatureMap::positive, FeatureMap::hyperbolic, FeatureMap::relu,
                               FeatureMap::trigonometric, FeatureMap::cosine,   FeatureMap::softmax,    FeatureMap::elu};

std::vector<std::pair<FeatureMap, bool>> forms() {
  std::vector<std::pair<FeatureMap, bool>> out;
  for (const FeatureMap map : maps) {
    out.emplace_back(map, false);
    out.emplace_back(map, true);
  }
  return out;
}

struct Result {
  Matrix o, dq, dk, dv;
  std::vector<float> state, denominator, query_shift, key_shift, d_matrix;
};

struct Problem {
  Packing packing;
  FeatureAttentionCall<float> call;
  int64_t columns;
  Matrix q, k, v, d_o;
  std::vector<float> matrix;
  std::vector<double> lengths;
  bool causal = false;
  const Result* given = nullptr;  // whose shifts are taken

  Problem(FeatureMap map, const std::vector<int32_t>& sizes, int features, int input, int dims, uint32_t seed = 1)
      : packing(sizes, std::vector<uint32_t>(sizes.size())),
        columns(2 * input),
        q(packing.rows(), columns, seed),
        k(packing.rows(), columns, seed + 1),
        v(packing.rows(), 2 * dims, seed + 2),
        d_o(packing.rows(), 2 * dims, seed + 3) {
    call.packing = &packing;
    call.heads = 2;
    call.input_dim = input;
    call.head_dim = dims;
    call.map = map;
    const bool own = map == FeatureMap::given || map == FeatureMap::softmax || map == FeatureMap::elu;
    call.features = map == FeatureMap::cosine ? 2 * input : own ? input : features;
    call.offset = 1e-3;
    // Given features have both signs here: their sums would be near 0.
    call.denominator = map == FeatureMap::softmax || map == FeatureMap::given ? Denominator::none : Denominator::clamp;
    call.epsilon = 0.05;
    const Draw draw{9, no_sample, 0};
    for (int i = 0; i < 2 * matrix_rows(map, call.features) * input; ++i)
      matrix.push_back(static_cast<float>(draw.gaussian(0, uint32_t(i))));
    for (const int32_t n : sizes) lengths.push_back(n + 3);
  }

  template <class Run>
  Result run(const Run& forward_backward) {
    const int64_t rows = packing.rows(), heads = 2;
    Result r{Matrix(rows, 2 * call.head_dim, 5),
             Matrix(rows, columns, 6),
             Matrix(rows, columns, 7),
             Matrix(rows, 2 * call.head_dim, 8),
             {},
             {},
             {},
             {},
             {}};
    r.state.resize(size_t(causal ? feature_chunks(packing) * heads * (call.features + 1) * (call.head_dim + 1)
                                 : packing.sequences() * heads * call.features * (call.head_dim + 1)));
    r.denominator.resize(size_t(heads * rows));
    r.query_shift.resize(size_t(heads * rows));
    r.key_shift.resize(
        size_t(causal ? heads * rows * shifts_per_key(call.map, call.features) : packing.sequences() * heads * call.features));
    r.d_matrix.resize(matrix.size());
    call.q = q.view();
    call.k = k.view();
    call.v = v.view();
    call.matrix = matrix.data();
    call.lengths = lengths.data();
    call.query_shift = r.query_shift.data();
    call.key_shift = r.key_shift.data();
    call.shifts_given = given != nullptr;
    if (given) {
      std::ranges::copy(given->query_shift, r.query_shift.begin());
      std::ranges::copy(given->key_shift, r.key_shift.begin());
    }
    forward_backward(r);
    return r;
  }
  Result on_cpu(int threads) {
    ThreadPool pool(threads);
    const Execution on{Device::cpu, &pool};
    return run([&](Result& r) {
      const auto forward = causal ? CausalFeatureAttentionForward<float>::cpu : FeatureAttentionForward<float>::cpu;
      const auto backward = causal ? CausalFeatureAttentionBackward<float>::cpu : FeatureAttentionBackward<float>::cpu;
      forward(on, call, r.o.view(), r.state.data(), r.denominator.data());
      backward(on, call, r.o.view(), r.state.data(), r.denominator.data(), d_o.view(), r.dq.view(), r.dk.view(), r.dv.view(),
               matrix.empty() ? nullptr : r.d_matrix.data());
    });
  }
  Result on_reference() {
    return run([&](Result& r) {
      const auto forward = causal ? CausalFeatureAttentionForward<float>::reference : FeatureAttentionForward<float>::reference;
      const auto backward = causal ? CausalFeatureAttentionBackward<float>::reference : FeatureAttentionBackward<float>::reference;
      forward({}, call, r.o.view(), r.state.data(), r.denominator.data());
      backward({}, call, r.o.view(), r.state.data(), r.denominator.data(), d_o.view(), r.dq.view(), r.dk.view(), r.dv.view(),
               matrix.empty() ? nullptr : r.d_matrix.data());
    });
  }
};

double difference(const Matrix& found, const Matrix& want) {
  return test::error(found, [&](int64_t r, int64_t c) { return want.at(r, c); });
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

void check_same(const Result& a, const Result& b) {
  CHECK((a.o.same_bytes(b.o) && a.dq.same_bytes(b.dq) && a.dk.same_bytes(b.dk) && a.dv.same_bytes(b.dv)));
  CHECK((same(a.state, b.state) && same(a.denominator, b.denominator) && same(a.key_shift, b.key_shift) && same(a.d_matrix, b.d_matrix)));
}

// The bytes of the rows of one sequence.
std::vector<float> slice(Result& r, int64_t first, int64_t count) {
  std::vector<float> out;
  for (Matrix* m : {&r.o, &r.dq, &r.dk, &r.dv})
    for (int64_t i = first; i < first + count; ++i) out.insert(out.end(), m->view().row(i), m->view().row(i) + m->columns());
  return out;
}

}  // namespace

TEST_CASE("cpu feature attention equals the reference device", "[cpu][feature_attention]") {
  test::for_each_instruction_set([](const std::string& instructions) {
    INFO(instructions);
    for (const auto& [map, causal] : forms())
      for (const auto& [features, input, dims] : {std::array{20, 4, 5}, std::array{66, 16, 16}, std::array{2, 3, 33}}) {
        CAPTURE(int(map), causal, features);
        Problem p(map, {1, 0, 500, 49}, features, input, map == FeatureMap::softmax ? input : dims);
        p.causal = causal;
        Result want = p.on_reference(), found = p.on_cpu(2);
        CHECK(difference(found.o, want.o) < 2e-5);
        CHECK(difference(found.dq, want.dq) < 2e-4);
        CHECK(difference(found.dk, want.dk) < 2e-4);
        CHECK(difference(found.dv, want.dv) < 2e-4);
        double worst = 0, most = 1e-3;
        for (size_t i = 0; i < want.d_matrix.size(); ++i) {
          worst = std::max(worst, double(std::abs(found.d_matrix[i] - want.d_matrix[i])));
          most = std::max(most, double(std::abs(want.d_matrix[i])));
        }
        CHECK(worst < 5e-4 * most);
        CHECK((found.o.gaps_untouched() && found.dq.gaps_untouched() && found.dk.gaps_untouched() && found.dv.gaps_untouched()));
      }
  });
}

TEST_CASE("cpu causal feature attention carries its sums over several chunks, both ways, also with given shifts",
          "[cpu][feature_attention]") {
  for (const FeatureMap map : maps) {
    CAPTURE(int(map));
    Problem p(map, {1500, 3}, 12, 4, 4);  // four chunks
    p.causal = true;
    Result want = p.on_reference();
    const auto check = [&](Result found) {
      CHECK(difference(found.o, want.o) < 2e-5);
      CHECK(difference(found.dq, want.dq) < 2e-4);
      CHECK(difference(found.dk, want.dk) < 2e-4);
      CHECK(difference(found.dv, want.dv) < 2e-4);
    };
    check(p.on_cpu(2));
    p.given = &want;
    check(p.on_cpu(2));
  }
}

TEST_CASE("cpu feature attention gives the same bytes on any number of threads", "[cpu][feature_attention]") {
  for (const auto& [map, causal] : forms()) {
    CAPTURE(int(map), causal);
    Problem p(map, {1100, 7, 481, 0, 480}, 32, 8, 8);
    p.causal = causal;
    const Result one = p.on_cpu(1);
    for (const int threads : test::thread_counts()) check_same(p.on_cpu(threads), one);
  }
}

TEST_CASE("cpu feature attention of a sequence does not depend on its batch mates, even if they are NaN", "[cpu][feature_attention]") {
  for (const auto& [map, causal] : forms())
    for (const int32_t length : {1, 50, 700}) {
      CAPTURE(int(map), causal, length);
      Problem alone(map, {length}, 32, 8, 8), middle(map, {37, 200, length, 5}, 32, 8, 8);
      alone.causal = middle.causal = causal;
      for (const auto& [from, to] : {std::pair{&alone.q, &middle.q}, std::pair{&alone.k, &middle.k}, std::pair{&alone.v, &middle.v},
                                     std::pair{&alone.d_o, &middle.d_o}})
        for (int64_t r = 0; r < length; ++r) std::copy_n(from->view().row(r), from->columns(), to->view().row(237 + r));
      middle.q.view().row(3)[1] = middle.k.view().row(50)[2] = middle.v.view().row(51)[0] = std::numeric_limits<float>::quiet_NaN();
      Result a = alone.on_cpu(1), m = middle.on_cpu(2);
      const std::vector<float> want = slice(a, 0, length);
      CHECK(same(want, slice(m, 237, length)));
      CHECK(std::none_of(want.begin(), want.end(), [](float x) { return std::isnan(x); }));
      CHECK(std::isnan(m.o.at(60, 0)));
      CHECK(std::isnan(m.o.at(40, 0)) == !causal);  // before the key that is NaN
    }
}
