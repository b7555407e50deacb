// SPDX-License-Identifier: Apache-2.0
// What every attention variant of variants.def must keep: it equals its dense oracle, its gradients are right, a sequence's result does not
// depend on its batch mates, any length works. The oracle is built from allowed() or dense_weights() and shares no code with plans and
// kernels.
#include <cmath>
#include <cstring>

#include "framework/nn/visitor.h"
#include "models/attention/attention.h"
#include "tests/support/catch.h"
#include "tests/support/devices.h"
#include "tests/support/matrix.h"
#include "tests/support/gradient_check.h"
#include "tests/support/model_fixture.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;
using Catch::Matchers::WithinAbs;

namespace {

constexpr int64_t dim = 8;
constexpr int heads = 2, head_dim = 4;
constexpr int expected_variants = 3;

struct Case {
  std::string name;
  std::vector<std::string> overrides;
};

// Every variant with its defaults, and the other forms of those that have some.
std::vector<Case> cases() {
  std::vector<Case> out;
  for (const auto& v : models::attention_variants()) out.push_back({std::string(v.name), {fmt::format("model.attention.type={}", v.name)}});
  out.push_back({"local blocked", {"model.attention.type=local", "model.attention.local.form=blocked"}});
  out.push_back({"local own row", {"model.attention.type=local", "model.attention.local.left=0", "model.attention.local.right=0"}});
  return out;
}

std::unique_ptr<models::Attention> make(const Case& c, Dtype dtype, double dropout = 0) {
  const models::ModelSettings s = model_settings(c.overrides);
  const size_t v = s.attention[0];
  return models::attention_variants()[v].make({.seed = 5, .dtype = dtype}, "attention",
                                              {.dim = dim, .heads = heads, .dropout = dropout, .max_length = 300}, s.own_settings[v].get());
}

std::map<std::string, Matrix> parameters_of(models::Attention& a) {
  nn::ModelState state;
  a.visit(state);
  std::map<std::string, Matrix> out;
  for (const Parameter* p : state.parameters) out[p->name] = Matrix(p->value);
  return out;
}

Matrix project(const Matrix& x, const Matrix& w, const Matrix& b) {
  Matrix y(x.rows, w.rows);
  for (int64_t r = 0; r < x.rows; ++r)
    for (int64_t o = 0; o < w.rows; ++o) {
      y(r, o) = b(o, 0);
      for (int64_t k = 0; k < w.columns; ++k) y(r, o) += x(r, k) * w(o, k);
    }
  return y;
}

// Weights of one head of one sequence, [n,n].
Matrix weights_of(const models::Attention& a, int head, const Matrix& q, const Matrix& k, int32_t n) {
  Matrix w(n, n);
  w.values = a.dense_weights(n, head_dim, q.values, k.values);
  if (!w.values.empty() || n == 0) return w;
  w = Matrix(n, n);
  for (int32_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int32_t j = 0; j < n; ++j) {
      double s = 0;
      for (int d = 0; d < head_dim; ++d) s += q(i, d) * k(j, d);
      w(i, j) = a.allowed(n, head, i, j) ? std::exp(s / std::sqrt(double{head_dim})) : 0;
      sum += w(i, j);
    }
    for (int32_t j = 0; j < n && sum > 0; ++j) w(i, j) /= sum;
  }
  return w;
}

Matrix oracle(models::Attention& a, const Matrix& x, const Packing& packing) {
  auto p = parameters_of(a);
  const Matrix q = project(x, p["attention.query.weight"], p["attention.query.bias"]);
  const Matrix k = project(x, p["attention.key.weight"], p["attention.key.bias"]);
  const Matrix v = project(x, p["attention.value.weight"], p["attention.value.bias"]);
  Matrix o(x.rows, dim);
  for (int b = 0; b < packing.sequences(); ++b)
    for (int h = 0; h < heads; ++h) {
      const int32_t first = packing.offsets()[static_cast<size_t>(b)], n = packing.length(b);
      Matrix qh(n, head_dim), kh(n, head_dim);
      for (int32_t i = 0; i < n; ++i)
        for (int d = 0; d < head_dim; ++d) {
          qh(i, d) = q(first + i, h * head_dim + d);
          kh(i, d) = k(first + i, h * head_dim + d);
        }
      const Matrix w = weights_of(a, h, qh, kh, n);
      for (int32_t i = 0; i < n; ++i)
        for (int32_t j = 0; j < n; ++j)
          for (int d = 0; d < head_dim; ++d) o(first + i, h * head_dim + d) += w(i, j) * v(first + j, h * head_dim + d);
    }
  return project(o, p["attention.output.weight"], p["attention.output.bias"]);
}

Packing packing_of(const std::vector<int32_t>& lengths, uint32_t first_id = 0) {
  std::vector<uint32_t> ids;
  for (size_t b = 0; b < lengths.size(); ++b) ids.push_back(first_id + static_cast<uint32_t>(b));
  return Packing(lengths, ids);
}

Tensor forward(models::Attention& a, const TestDevice& on, const Tensor& x, const Packing& packing) {
  Context context{.on = on.on, .dtype = on.dtype};
  return a.forward(context, {x, no_node}, packing, {.residual = {Tensor::zeros(on.dtype, x.shape()), no_node}}).x.value;
}

const std::vector<int32_t> lengths{5, 0, 1, 64, 2, 65, 3, 4, 63, 129};

}  // namespace

TEST_CASE("the list of variants is complete", "[attention]") {
  CHECK(models::attention_variants().size() == expected_variants);
  CHECK(test_devices().size() >= 3);
}

TEST_CASE("every variant equals its dense oracle", "[attention]") {
  const Packing packing = packing_of(lengths);
  for (const Case& c : cases())
    for (const TestDevice& device : test_devices()) {
      INFO(c.name << " on " << device.name);
      auto attention = make(c, device.dtype);
      const Tensor x = random_tensor(device.dtype, {packing.rows(), dim}, 11);
      CHECK(relative_error(Matrix(forward(*attention, device, x, packing)), oracle(*attention, Matrix(x), packing)) <= device.tolerance);
    }
}

TEST_CASE("a sequence's bytes do not depend on its batch mates", "[attention]") {
  for (const Case& c : cases())
    for (const TestDevice& device : test_devices()) {
      INFO(c.name << " on " << device.name);
      auto attention = make(c, device.dtype);
      const Packing packing = packing_of(lengths);
      const Tensor x = random_tensor(device.dtype, {packing.rows(), dim}, 12);
      const Tensor together = forward(*attention, device, x, packing);
      for (int b = 0; b < packing.sequences(); ++b) {
        const int64_t first = packing.offsets()[static_cast<size_t>(b)], n = packing.length(b);
        const Tensor alone =
            forward(*attention, device, x.rows(first, n).clone(), packing_of({static_cast<int32_t>(n)}, static_cast<uint32_t>(b)));
        CHECK(std::memcmp(alone.raw(), together.rows(first, n).raw(), alone.bytes()) == 0);
      }
    }
}

TEST_CASE("a NaN in one sequence stays in it", "[attention]") {
  for (const Case& c : cases())
    for (const TestDevice& device : test_devices()) {
      INFO(c.name << " on " << device.name);
      auto attention = make(c, device.dtype);
      const Packing packing = packing_of({5, 6, 7});
      Tensor x = random_tensor(device.dtype, {18, dim}, 13);
      const Tensor before = forward(*attention, device, x, packing);
      if (device.dtype == Dtype::f32) x.data<float>()[5 * dim] = NAN;
      else x.data<double>()[5 * dim] = NAN;
      const Tensor after = forward(*attention, device, x, packing);
      CHECK(std::memcmp(before.rows(0, 5).raw(), after.rows(0, 5).raw(), after.rows(0, 5).bytes()) == 0);
      CHECK(std::memcmp(before.rows(11, 7).raw(), after.rows(11, 7).raw(), after.rows(11, 7).bytes()) == 0);
    }
}

TEST_CASE("gradients agree with central differences, with dropout of probabilities where there are some", "[attention]") {
  const TestDevice& device = test_devices().front();
  REQUIRE(device.dtype == Dtype::f64);
  const Packing packing = packing_of({4, 1, 7});
  for (const Case& c : cases()) {
    const models::ModelSettings s = model_settings(c.overrides);
    const double dropout = models::attention_variants()[s.attention[0]].has_probabilities ? 0.3 : 0;
    auto attention = make(c, Dtype::f64, dropout);
    const Matrix weights(random_tensor(Dtype::f64, {packing.rows(), dim}, 15));
    Tensor x = random_tensor(Dtype::f64, {packing.rows(), dim}, 14);
    const auto run = [&](Tape* tape, const Tensor& input) {
      Context context{.on = device.on, .tape = tape, .mode = Mode::train, .seed = 9, .step = 3, .dtype = Dtype::f64};
      const int node = tape ? tape->record("input", [](Tape&, const Tensor&) {}) : no_node;
      return attention->forward(context, {input, node}, packing, {.residual = {Tensor::zeros(Dtype::f64, input.shape()), no_node}}).x;
    };
    const auto loss = [&] {
      const Matrix y(run(nullptr, x).value);
      double sum = 0;
      for (size_t i = 0; i < y.values.size(); ++i) sum += y.values[i] * weights.values[i];
      return sum;
    };
    nn::ModelState state;
    attention->visit(state);
    Tape tape(device.on);
    const Variable y = run(&tape, x);
    Tensor seed(Dtype::f64, y.value.shape());
    std::memcpy(seed.raw(), weights.values.data(), seed.bytes());
    const int output = tape.record("weighted", [&](Tape& t, const Tensor&) { t.add_gradient(y.node, seed); });
    tape.backward({Tensor::zeros(Dtype::f64, {1}), output});
    for (Parameter* p : state.parameters) {
      INFO(c.name << " " << p->name);
      const Matrix gradient(p->gradient);
      double largest = 0, worst = 0;
      for (int64_t i = 0; i < p->value.count(); i += 1 + p->value.count() / 16) {
        double& v = p->value.data<double>()[i];
        const double kept = v, step = 1e-6;
        v = kept + step;
        const double up = loss();
        v = kept - step;
        const double down = loss();
        v = kept;
        const double quotient = (up - down) / (2 * step);
        largest = std::max(largest, std::abs(quotient));
        worst = std::max(worst, std::abs(quotient - gradient.values[static_cast<size_t>(i)]));
      }
      CHECK(worst <= 1e-6 * std::max(1e-2, largest) + 1e-8);
    }
  }
}
