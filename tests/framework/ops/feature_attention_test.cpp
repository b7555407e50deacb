// SPDX-License-Identifier: Apache-2.0
// Linear attention on feature maps against the explicit matrix of weights f(q_i) . g(k_j), for every map and denominator.
#include "framework/ops/feature_attention.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tests/framework/ops/op_check.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;
using Catch::Matchers::ContainsSubstring;

namespace {

using Row = std::vector<double>;

// Features of all rows of one head of one sequence; x [n,D], w [rows,D]; those of keys as the first `seen` rows see them, where the map is
// a causal softmax. No shift is subtracted: `shift` is what the formula has.
std::vector<Row> features(const ops::FeatureAttentionSettings& s, const std::vector<Row>& x, const std::vector<Row>& w, bool keys,
                          double length, const std::vector<Row>& shifts, size_t seen = 0) {
  std::vector<Row> out;
  const double m = s.features;
  for (size_t i = 0; i < x.size(); ++i) {
    double square = 0;
    for (const double v : x[i]) square += v * v;
    const double d = double(x[i].size());
    Row f;
    for (int half = 0; half < 2; ++half) {
      if (half == 1 && (s.map == FeatureMap::positive || s.map == FeatureMap::relu)) break;
      for (const Row& r : w) {
        double dot = 0;
        for (size_t c = 0; c < r.size(); ++c) dot += r[c] * x[i][c];
        if (s.map == FeatureMap::relu) f.push_back(std::max(dot / std::sqrt(m), 0.0) + s.offset);
        else if (s.map == FeatureMap::trigonometric) {
          const double u = dot / (std::sqrt(square) + 1e-3);
          f.push_back((half ? std::cos(u) : std::sin(u)) / std::sqrt(m / 2));
        } else {
          const double u = (half ? -dot : dot) / std::pow(d, 0.25) - square / std::sqrt(d) / 2;
          f.push_back((std::exp(u - shifts[i][0]) + s.offset) / std::sqrt(m));
        }
      }
      for (size_t c = 0; w.empty() && c < x[i].size(); ++c) {
        const double angle = std::numbers::pi * double(i + 1) / 2 / length;
        if (s.map == FeatureMap::cosine) f.push_back(std::max(x[i][c], 0.0) * (half ? std::cos(angle) : std::sin(angle)));
        else if (half == 0 && s.map == FeatureMap::given) f.push_back(x[i][c]);
        else if (half == 0 && s.map == FeatureMap::elu) f.push_back(x[i][c] < 0 ? std::exp(x[i][c]) : x[i][c] + 1);
        else if (half == 0) {
          double sum = 0;
          for (size_t n = 0; n < (!keys ? x[i].size() : s.causal ? seen : x.size()); ++n)
            sum += std::exp((keys ? x[n][c] : x[i][n]) - x[i][c]);
          f.push_back(1 / sum);
        }
      }
    }
    out.push_back(f);
  }
  return out;
}

struct Problem {
  Packing packing;
  ops::FeatureAttentionSettings s;
  int64_t input, dims, rows;
  ops::FeatureShifts shifts;  // float64, given or empty

  std::vector<Row> head(const Matrix& x, int b, int h, int64_t columns) const {
    std::vector<Row> out;
    for (int64_t r = packing.offsets()[size_t(b)]; r < packing.offsets()[size_t(b) + 1]; ++r) {
      out.emplace_back();
      for (int64_t c = h * columns; c < (h + 1) * columns; ++c) out.back().push_back(x(r, c));
    }
    return out;
  }

  Matrix oracle(const Matrix& q, const Matrix& k, const Matrix& v, const Matrix& w) const {
    Matrix o(q.rows, s.heads * dims);
    for (int b = 0; b < packing.sequences(); ++b)
      for (int h = 0; h < s.heads; ++h) {
        std::vector<Row> matrix, query_shift, key_shift;
        for (int64_t r = h * rows; r < (h + 1) * rows; ++r) {
          matrix.emplace_back();
          for (int64_t c = 0; c < input; ++c) matrix.back().push_back(w(r, c));
        }
        const int n = packing.length(b), first = packing.offsets()[size_t(b)];
        for (int i = 0; i < n; ++i) {
          query_shift.push_back({shifts.query.defined() ? shifts.query.data<double>()[h * packing.rows() + first + i] : 0});
          key_shift.push_back({!shifts.key.defined() ? 0
                               : s.causal            ? shifts.key.data<double>()[h * packing.rows() + first + i]
                                                     : shifts.key.data<double>()[int64_t(b * s.heads + h) * s.features]});
        }
        const double length = s.lengths.empty() ? 0 : s.lengths[size_t(b)];
        const std::vector<Row> f = features(s, head(q, b, h, input), matrix, false, length, query_shift);
        std::vector<Row> g = features(s, head(k, b, h, input), matrix, true, length, key_shift);
        for (int i = 0; i < n; ++i) {
          double sum = 0;
          Row out(static_cast<size_t>(dims));
          // Causal: the keys' shift, and what a softmax sums over, is that of the row which looks at them.
          if (s.causal && (shifts.key.defined() || s.map == FeatureMap::softmax))
            g = features(s, head(k, b, h, input), matrix, true, length, std::vector<Row>(size_t(n), key_shift[size_t(i)]), size_t(i + 1));
          for (int j = 0; j < (s.causal ? i + 1 : n); ++j) {
            double weight = 0;
            for (size_t r = 0; r < f[size_t(i)].size(); ++r) weight += f[size_t(i)][r] * g[size_t(j)][r];
            sum += weight;
            for (int64_t e = 0; e < dims; ++e) out[size_t(e)] += weight * v(first + j, h * dims + e);
          }
          const double den = s.denominator == Denominator::none  ? 1
                             : s.denominator == Denominator::add ? sum + s.epsilon
                                                                 : std::max(std::abs(sum), s.epsilon);
          for (int64_t e = 0; e < dims; ++e) o(first + i, h * dims + e) = out[size_t(e)] / den;
        }
      }
    return o;
  }
};

ops::FeatureShifts converted(const ops::FeatureShifts& s, Dtype dtype) { return {s.query.converted(dtype), s.key.converted(dtype)}; }

void check(Problem p, double deviation, double cancellation = 1) {
  OpCase c;
  c.cancellation = cancellation;
  c.entries = p.packing.rows() > 100 ? 4 : 30;
  const int64_t t = p.packing.rows();
  c.inputs = {random_tensor(Dtype::f64, {t, p.s.heads * p.input}, 1, deviation),
              random_tensor(Dtype::f64, {t, p.s.heads * p.input}, 2, deviation), random_tensor(Dtype::f64, {t, p.s.heads * p.dims}, 3)};
  if (p.rows > 0) c.inputs.push_back(random_tensor(Dtype::f64, {p.s.heads * p.rows, p.input}, 4));
  const bool frozen = p.s.offset > 0 && (p.s.map == FeatureMap::positive || p.s.map == FeatureMap::hyperbolic);
  if (frozen) {
    // Any numbers near the largest exponents do; what counts is that the differences see constants.
    p.shifts = {random_tensor(Dtype::f64, {p.s.heads, t}, 5, 0.3, 1),
                p.s.causal ? random_tensor(Dtype::f64, {p.s.heads, t, 1}, 6, 0.3, 1)
                           : Tensor(Dtype::f64, {p.packing.sequences(), p.s.heads, p.s.features})};
    for (int64_t i = 0; !p.s.causal && i < p.shifts.key.count(); ++i) p.shifts.key.data<double>()[i] = 0.75;
  }
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    const ops::FeatureShifts given = frozen ? converted(p.shifts, ctx.dtype) : ops::FeatureShifts{};
    return ops::feature_attention(ctx, in[0], in[1], in[2], p.rows > 0 ? in[3] : Variable{}, p.packing, p.s, frozen ? &given : nullptr);
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) {
    return p.oracle(in[0], in[1], in[2], p.rows > 0 ? in[3] : Matrix());
  };
  check_op(c);
}

Packing packed(const std::vector<int32_t>& lengths) { return Packing(lengths, std::vector<uint32_t>(lengths.size(), 7)); }

const std::vector<std::vector<int32_t>> batches = {{0, 1, 2, 9, 0}, {47, 48, 49, 0, 97}, {0}};

}  // namespace

TEST_CASE("attention on given features equals its quadratic form", "[feature_attention]") {
  const auto lengths = GENERATE(from_range(batches));
  const auto denominator = GENERATE(Denominator::add, Denominator::clamp, Denominator::none);
  const bool causal = GENERATE(false, true);
  // M = 5 features and 3 channels; features of both signs, so that denominators have both, too.
  Problem p{packed(lengths),
            {.heads = 2, .map = FeatureMap::given, .denominator = denominator, .epsilon = 0.4, .lengths = {}, .causal = causal},
            5,
            3,
            0,
            {}};
  check(p, 1, denominator == Denominator::add ? 40 : 4);
}

TEST_CASE("random features without offset equal their quadratic form, the shifts cancel", "[feature_attention]") {
  const auto lengths = GENERATE(from_range(batches));
  const auto map = GENERATE(FeatureMap::positive, FeatureMap::hyperbolic);
  const int features = GENERATE(2, 18, 70);
  const bool causal = GENERATE(false, true);
  check({packed(lengths),
         {.heads = 2, .map = map, .features = features, .lengths = {}, .causal = causal},
         4,
         5,
         matrix_rows(map, features),
         {}},
        0.7, 2);
}

TEST_CASE("random features with an offset and frozen shifts equal their quadratic form", "[feature_attention]") {
  const auto map = GENERATE(FeatureMap::positive, FeatureMap::hyperbolic);
  const bool causal = GENERATE(false, true);
  check({packed({9, 0, 50, 1}),
         {.heads = 2, .map = map, .features = 34, .offset = 0.01, .lengths = {}, .causal = causal},
         6,
         6,
         matrix_rows(map, 34),
         {}},
        0.7);
}

TEST_CASE("rectified and trigonometric features equal their quadratic form, the matrix is learned", "[feature_attention]") {
  const auto lengths = GENERATE(from_range(batches));
  const int features = GENERATE(2, 18, 70);
  const bool causal = GENERATE(false, true);
  check({packed(lengths),
         {.heads = 2, .map = FeatureMap::relu, .features = features, .offset = 1e-2, .lengths = {}, .causal = causal},
         4,
         5,
         features,
         {}},
        1);
  check({packed(lengths),
         {.heads = 2,
          .map = FeatureMap::trigonometric,
          .features = features,
          .denominator = Denominator::clamp,
          .epsilon = 0.05,
          .lengths = {},
          .causal = causal},
         4,
         5,
         features / 2,
         {}},
        1, 10);
}

TEST_CASE("cosine weights and the two softmaxes equal their quadratic form", "[feature_attention]") {
  const auto lengths = GENERATE(from_range(batches));
  Problem cosine{packed(lengths), {.heads = 2, .map = FeatureMap::cosine, .denominator = Denominator::clamp, .epsilon = 1e-6}, 5, 5, 0, {}};
  const double factor = GENERATE(1.0, 3.5);
  cosine.s.causal = GENERATE(false, true);
  for (const int32_t n : lengths) cosine.s.lengths.push_back(std::max(1.0, n * factor));
  check(cosine, 1, 2);
  for (const int64_t dims : {1, 7, 16})
    check({packed(lengths),
           {.heads = 2, .map = FeatureMap::softmax, .denominator = Denominator::none, .lengths = {}, .causal = cosine.s.causal},
           dims,
           dims,
           0,
           {}},
          1, dims > 1 ? 1 : cosine.s.causal ? 20 : 10);
}

TEST_CASE("exponential linear units equal their quadratic form", "[feature_attention]") {
  const auto lengths = GENERATE(from_range(batches));
  const bool causal = GENERATE(false, true);
  for (const int64_t dims : {2, 7, 16})
    check({packed(lengths), {.heads = 2, .map = FeatureMap::elu, .epsilon = 1e-6, .lengths = {}, .causal = causal}, dims, 5, 0, {}}, 1, 2);
}

TEST_CASE("what stands behind a row has no part in its causal result, and the last row is that of the whole", "[feature_attention]") {
  const auto map = GENERATE(FeatureMap::positive, FeatureMap::hyperbolic, FeatureMap::relu, FeatureMap::trigonometric, FeatureMap::elu,
                            FeatureMap::softmax);
  // Two chunks of the cpu and a piece of a third; the offset makes the shifts no neutral factor.
  const int32_t n = 1000;
  ops::FeatureAttentionSettings s{.heads = 2,
                                  .map = map,
                                  .features = 12,
                                  .offset = 0.05,
                                  .denominator = map == FeatureMap::softmax ? Denominator::none : Denominator::clamp,
                                  .epsilon = 1e-3,
                                  .lengths = {},
                                  .causal = true};
  for (const TestDevice& device : test_devices()) {
    INFO(device.name << ", map " << int(map));
    Context ctx = test_context(device, nullptr);
    const Tensor qkv = random_tensor(device.dtype, {n, 24}, 1, 2), matrix = random_tensor(device.dtype, {2 * matrix_rows(map, 12), 4}, 2);
    const Matrix causal(ops::feature_attention(ctx, {qkv}, {matrix}, packed({n}), s).value);
    for (const int32_t prefix : {1, 47, 48, 480, 481, 977}) {
      Tensor other = qkv.clone();
      other.rows(prefix, n - prefix).copy_from(random_tensor(device.dtype, {n - prefix, 24}, 3, 40));
      const Matrix alone(ops::feature_attention(ctx, {qkv.rows(0, prefix)}, {matrix}, packed({prefix}), s).value);
      const Matrix beside(ops::feature_attention(ctx, {other}, {matrix}, packed({n}), s).value);
      int differing = 0;
      for (int64_t i = 0; i < prefix; ++i)
        for (int64_t c = 0; c < 8; ++c) differing += alone(i, c) != causal(i, c) || beside(i, c) != causal(i, c);
      CHECK(differing == 0);
      ops::FeatureAttentionSettings whole = s;
      whole.causal = false;
      const Matrix last(ops::feature_attention(ctx, {qkv.rows(0, prefix)}, {matrix}, packed({prefix}), whole).value);
      for (int64_t c = 0; c < 8; ++c) CHECK(std::abs(last(prefix - 1, c) - causal(prefix - 1, c)) <= 100 * device.tolerance);
    }
  }
}

TEST_CASE("feature attention on one array of q, k and v", "[feature_attention]") {
  const Packing packing = packed({4, 0, 7});
  OpCase c;
  c.inputs = {random_tensor(Dtype::f64, {11, 18}, 1)};
  const Problem p{packing, {.heads = 2, .map = FeatureMap::softmax, .denominator = Denominator::none}, 3, 3, 0, {}};
  c.op = [&](Context& ctx, const std::vector<Variable>& in, std::vector<Parameter>&) {
    return ops::feature_attention(ctx, in[0], {}, packing, p.s);
  };
  c.oracle = [&](const std::vector<Matrix>& in, const std::vector<Matrix>&) {
    Matrix parts[3] = {Matrix(11, 6), Matrix(11, 6), Matrix(11, 6)};
    for (int64_t r = 0; r < 11; ++r)
      for (int64_t col = 0; col < 18; ++col) parts[col / 6](r, col % 6) = in[0](r, col);
    return p.oracle(parts[0], parts[1], parts[2], Matrix());
  };
  check_op(c);
}

TEST_CASE("shifts that are found can be given again", "[feature_attention]") {
  const Packing packing = packed({5, 0, 60});
  const ops::FeatureAttentionSettings s{.heads = 2, .map = FeatureMap::positive, .features = 20, .offset = 1e-3};
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    Context ctx = test_context(device, nullptr);
    const Tensor qkv = random_tensor(device.dtype, {65, 24}, 1), matrix = random_tensor(device.dtype, {40, 4}, 2);
    const ops::FeatureShifts shifts = ops::feature_shifts(ctx, qkv, matrix, packing, s);
    const Matrix found(ops::feature_attention(ctx, {qkv}, {matrix}, packing, s).value);
    const Matrix given(ops::feature_attention(ctx, {qkv}, {matrix}, packing, s, &shifts).value);
    CHECK(relative_error(given, found) <= device.tolerance);
    // A query's shift is its largest exponent, and the keys' the largest of a sequence and head.
    const Matrix x(qkv), w(matrix);
    for (int h = 0; h < 2; ++h) {
      double keys = -1e30;
      for (int64_t j = 5; j < 65; ++j) {
        double query = -1e30;
        for (int64_t r = 20 * h; r < 20 * (h + 1); ++r) {
          double uq = 0, uk = 0;
          for (int64_t c = 0; c < 4; ++c) {
            const double a = x(j, 4 * h + c), b = x(j, 8 + 4 * h + c);
            uq += w(r, c) * a / std::sqrt(2.0) - a * a / 4;
            uk += w(r, c) * b / std::sqrt(2.0) - b * b / 4;
          }
          query = std::max(query, uq);
          keys = std::max(keys, uk);
        }
        const Matrix q(shifts.query);
        CHECK(q(h, j) == Approx(query).epsilon(1e-5).margin(1e-5));
      }
      CHECK(Matrix(shifts.key.reshaped({4 + 2, 20}))(4 + h, 3) == Approx(keys).epsilon(1e-5));
    }
  }
}

TEST_CASE("the order of keys and values does not matter where places have no part", "[feature_attention]") {
  const Packing packing = packed({90});
  const auto map = GENERATE(FeatureMap::given, FeatureMap::positive, FeatureMap::hyperbolic, FeatureMap::relu, FeatureMap::trigonometric,
                            FeatureMap::softmax, FeatureMap::cosine);
  const Tensor q = random_tensor(Dtype::f64, {90, 4}, 1), k = random_tensor(Dtype::f64, {90, 4}, 2),
               v = random_tensor(Dtype::f64, {90, 3}, 3);
  const auto turned = [](const Tensor& t) {
    Tensor out(t.dtype(), t.shape());
    for (int64_t r = 0; r < 90; ++r) out.rows((r * 7 + 5) % 90, 1).copy_from(t.rows(r, 1));
    return out;
  };
  const Tensor matrix = random_tensor(Dtype::f64, {matrix_rows(map, 12), 4}, 4);
  const ops::FeatureAttentionSettings s{
      .heads = 1,
      .map = map,
      .features = 12,
      .offset = 1e-3,
      .denominator = map == FeatureMap::given || map == FeatureMap::softmax ? Denominator::none : Denominator::clamp,
      .epsilon = 0.1,
      .lengths = {90}};
  for (const TestDevice& device : test_devices()) {
    INFO(device.name << ", map " << int(map));
    Context ctx = test_context(device, nullptr);
    const auto attend = [&](const Tensor& keys, const Tensor& values) {
      const auto at = [&](const Tensor& t) { return Variable{t.converted(device.dtype)}; };
      return Matrix(ops::feature_attention(ctx, at(q), at(keys), at(values), at(matrix), packing, s).value);
    };
    const double difference = relative_error(attend(turned(k), turned(v)), attend(k, v));
    if (map == FeatureMap::cosine) CHECK(difference > 1e-2);
    else CHECK(difference <= 4 * device.tolerance);
  }
}

TEST_CASE("huge inputs neither overflow nor divide by zero", "[feature_attention]") {
  const Packing packing = packed({70});
  const auto map = GENERATE(FeatureMap::positive, FeatureMap::hyperbolic, FeatureMap::softmax, FeatureMap::trigonometric);
  const bool softmax = map == FeatureMap::softmax, causal = GENERATE(false, true);
  for (const TestDevice& device : test_devices()) {
    INFO(device.name << ", map " << int(map));
    Context ctx = test_context(device, nullptr);
    const Tensor qkv = random_tensor(device.dtype, {70, 12}, 1, 60), matrix = random_tensor(device.dtype, {matrix_rows(map, 20), 4}, 2);
    const ops::FeatureAttentionSettings s{.heads = 1,
                                          .map = map,
                                          .features = softmax ? 0 : 20,
                                          .offset = 1e-6,
                                          .denominator = softmax ? Denominator::none : Denominator::clamp,
                                          .epsilon = softmax ? 0 : 1e-6,
                                          .lengths = {},
                                          .causal = causal};
    const Matrix o(ops::feature_attention(ctx, {qkv}, {matrix}, packing, s).value);
    CHECK(std::ranges::all_of(o.values, [](double v) { return std::isfinite(v); }));
  }
}

TEST_CASE("feature attention refuses arguments that do not fit", "[feature_attention]") {
  Context ctx = test_context(test_devices().front(), nullptr);
  const Packing packing = packed({3});
  const Variable x{Tensor::zeros(Dtype::f64, {3, 4})}, v{Tensor::zeros(Dtype::f64, {3, 2})}, w{Tensor::zeros(Dtype::f64, {6, 2})};
  const auto run = [&](const ops::FeatureAttentionSettings& s) { ops::feature_attention(ctx, x, x, v, w, packing, s); };
  CHECK_THROWS_WITH(run({.heads = 2, .map = FeatureMap::softmax, .lengths = {}, .causal = true}), ContainsSubstring("no denominator"));
  CHECK_THROWS_WITH(run({.heads = 3}), ContainsSubstring("4 columns do not divide into 3 heads"));
  CHECK_THROWS_WITH(run({.heads = 2, .map = FeatureMap::positive, .features = 4}),
                    ContainsSubstring("[6, 2]") && ContainsSubstring("[8, 2]"));
  CHECK_THROWS_WITH(run({.heads = 2, .map = FeatureMap::hyperbolic, .features = 5}), ContainsSubstring("in pairs"));
  CHECK_THROWS_WITH(run({.heads = 2, .map = FeatureMap::positive}), ContainsSubstring("0 features"));
  CHECK_THROWS_WITH(run({.heads = 2, .map = FeatureMap::cosine}), ContainsSubstring("0 length constants for 1 sequences"));
  CHECK_THROWS_WITH(run({.heads = 2, .map = FeatureMap::cosine, .lengths = {2.5}}),
                    ContainsSubstring("2.5 of sequence 0 is below its length 3"));
}
