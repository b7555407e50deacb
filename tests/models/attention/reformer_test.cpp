// SPDX-License-Identifier: Apache-2.0
// Reformer attention: buckets by their definition, the limits, pairs of several rounds, redraws, and rows that are alone.
#include <cmath>

#include "models/attention/head_attention.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

AttentionCase reformer_case(const std::string& settings) {
  return attention_case(settings, {"model.attention.type=reformer", fmt::format("model.attention.reformer={{{}}}", settings)});
}

struct Run : AttentionPass {
  using AttentionPass::AttentionPass;
  int code(int head, int round, int hashes, int64_t row) const {
    const Tensor& codes = structures.at("attention.codes");
    return codes.data<int32_t>()[(head * hashes + round) * codes.shape()[1] + row];
  }
};

// The largest of [x R; -x R], with R drawn by its definition.
int bucket(const Matrix& q, int64_t row, int head, int round, int first_column, int buckets, uint32_t redraws) {
  const Draw draw{random_key(5, "rotations", "attention", head, round), no_sample, redraws};
  int best = 0;
  double most = -1e300;
  for (int c = 0; c < buckets; ++c) {
    double dot = 0;
    for (int d = 0; d < 4; ++d)
      dot += q(row, head * 4 + d) * draw.gaussian(static_cast<uint32_t>(d), static_cast<uint32_t>(first_column + c % (buckets / 2)));
    if (c >= buckets / 2) dot = -dot;
    if (dot > most) {
      most = dot;
      best = c;
    }
  }
  return best;
}

}  // namespace

TEST_CASE("every form of reformer keeps what every attention keeps", "[reformer]") {
  check_attention(reformer_case("hashes: 2, buckets: 8, chunk: 5"));
  check_attention(reformer_case("hashes: 3, buckets: 4, chunk: 16, after: 0, dedup: false, logit_scale: 2"));
  check_attention(reformer_case("hashes: 2, buckets: 4, second_buckets: 4, chunk: 3, before: 2, after: 0, same_bucket_only: true"));
  check_attention(reformer_case("hashes: 1, buckets: 2, chunk: 1, before: 0, after: 0"));
}

TEST_CASE("reformer drops pairs, the same in every round", "[reformer]") {
  check_dropout(reformer_case("hashes: 3, buckets: 8, chunk: 8"));
  check_dropout(reformer_case("hashes: 3, buckets: 8, chunk: 8, dedup: false"));
}

TEST_CASE("buckets are the largest of the rotated query and its opposite", "[reformer]") {
  const Run run(reformer_case("hashes: 2, buckets: 6"), 20), two(reformer_case("hashes: 2, buckets: 4, second_buckets: 6"), 20);
  const Matrix q = run.projected("query_key");
  for (int h = 0; h < 2; ++h)
    for (int r = 0; r < 2; ++r)
      for (int64_t i = 0; i < 20; ++i) {
        CHECK(run.code(h, r, 2, i) == bucket(q, i, h, r, 0, 6, 0));
        CHECK(two.code(h, r, 2, i) == bucket(q, i, h, r, 0, 4, 0) + 4 * bucket(q, i, h, r, 2, 6, 0));
      }
}

TEST_CASE("a chunk of all rows is full attention of one projection without the row itself", "[reformer]") {
  for (const int n : {2, 5, 64, 130}) {
    const Run run(reformer_case("hashes: 1, chunk: 200"), n);
    const Matrix q = run.projected("query_key"), v = run.projected("value"), w = run.parameter("output.weight");
    Matrix o(n, 8), expected(n, 8);
    for (int64_t h = 0; h < 8; h += 4)
      for (int64_t i = 0; i < n; ++i) {
        double sum = 0;
        std::vector<double> p(static_cast<size_t>(n));
        for (int64_t j = 0; j < n; ++j) {
          double dot = 0, square = 4e-6;
          for (int64_t d = h; d < h + 4; ++d) {
            dot += q(i, d) * q(j, d);
            square += q(j, d) * q(j, d);
          }
          if (j != i) sum += p[static_cast<size_t>(j)] = std::exp(dot / std::sqrt(square));
        }
        for (int64_t j = 0; j < n; ++j)
          for (int64_t d = h; d < h + 4; ++d) o(i, d) += p[static_cast<size_t>(j)] / sum * v(j, d);
      }
    for (int64_t i = 0; i < n; ++i)
      for (int64_t c = 0; c < 8; ++c)
        for (int64_t e = 0; e < 8; ++e) expected(i, c) += o(i, e) * w(c, e);
    CHECK(relative_error(run.y, expected) < 1e-12);
    CHECK(relative_error(Run(reformer_case("hashes: 3, chunk: 200"), n).y, expected) < 1e-12);
    CHECK(relative_error(Run(reformer_case("hashes: 3, chunk: 200, dedup: false"), n).y, expected) < 1e-12);
  }
}

TEST_CASE("a row that sees nothing else sees itself", "[reformer]") {
  const Run run(reformer_case("hashes: 2, chunk: 1, before: 0, after: 0"), 9);
  const Matrix v = run.projected("value"), w = run.parameter("output.weight");
  Matrix expected(9, 8);
  for (int64_t i = 0; i < 9; ++i)
    for (int64_t c = 0; c < 8; ++c)
      for (int64_t e = 0; e < 8; ++e) expected(i, c) += v(i, e) * w(c, e);
  CHECK(relative_error(run.y, expected) < 1e-13);
}

TEST_CASE("pairs of several rounds count once unless it is said", "[reformer]") {
  const Matrix once = Run(reformer_case("hashes: 4, buckets: 4, chunk: 8"), 60).y;
  CHECK(relative_error(Run(reformer_case("hashes: 4, buckets: 4, chunk: 8, dedup: false"), 60).y, once) > 1e-3);
}

TEST_CASE("rotations are drawn anew after every update and are found again from the saved count", "[reformer]") {
  const AttentionCase c = reformer_case("hashes: 1, buckets: 8, chunk: 4");
  Run run(c, 40);
  Context update{.mode = Mode::train, .step = 1};
  run.attention->after_update(update);
  const Tensor x = random_tensor(Dtype::f64, {40, 8}, 3);
  const auto codes_of = [&](models::Attention& a) {
    Structures structures;
    attention_output(a, test_devices().front(), x, Packing({40}, {0}), &structures);
    const auto codes = structures.at("attention.codes").span<int32_t>();
    return std::vector<int32_t>(codes.begin(), codes.end());
  };
  const std::vector<int32_t> second = codes_of(*run.attention);
  CHECK(codes_of(*run.attention) == second);
  const Matrix q = run.projected("query_key");
  int changed = 0;
  for (int64_t i = 0; i < 40; ++i) {
    CHECK(second[static_cast<size_t>(i)] == bucket(q, i, 0, 0, 0, 8, 1));
    changed += second[static_cast<size_t>(i)] != run.code(0, 0, 1, i);
  }
  CHECK(changed > 10);
  const auto restored = make_attention(c, Dtype::f64);
  nn::ModelState state;
  restored->visit(state);
  REQUIRE(state.buffers.size() == 1);
  CHECK(state.buffers[0]->name == "attention.redraws");
  state.buffers[0]->value.data<int64_t>()[0] = 1;
  CHECK(codes_of(*restored) == second);
}

TEST_CASE("reformer says its pairs and refuses odd buckets", "[reformer]") {
  const auto pairs = [](const std::string& settings, int32_t n) { return make_attention(reformer_case(settings), Dtype::f32)->pairs(n); };
  CHECK(pairs("hashes: 2, chunk: 10", 100) == 2 * (28 * 100 - 100));
  CHECK(pairs("hashes: 1, chunk: 10, before: 0, after: 0", 25) == 100 + 100 + 25 - 25);
  CHECK(pairs("hashes: 4, chunk: 64", 30) == 900);
  CHECK(pairs("hashes: 1, chunk: 64", 1) == 1);
  CHECK_THROWS_WITH(reformer_case("hashes: 1, dedup: false"),
                    Catch::Matchers::ContainsSubstring("reformer.dedup' has no meaning with 'model.attention.reformer.hashes: 1'"));
  for (const char* odd : {"buckets: 7", "second_buckets: 3"}) {
    try {
      reformer_case(odd);
      FAIL("accepted");
    } catch (const Error& e) {
      CHECK(e.code() == ExitCode::usage);
      CHECK(std::string(e.what()).find("buckets") != std::string::npos);
      CHECK(std::string(e.what()).find("model.attention.type") != std::string::npos);
    }
  }
}
