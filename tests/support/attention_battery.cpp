// SPDX-License-Identifier: Apache-2.0
#include "tests/support/attention_battery.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "framework/core/parallel.h"
#include "framework/nn/visitor.h"
#include "models/attention/dense.h"
#include "models/attention/head_attention.h"
#include "tests/support/catch.h"
#include "tests/support/differentiated.h"
#include "tests/support/random_tensor.h"

namespace tapeformer::test {
namespace {

using Parameters = std::map<std::string, Matrix>;

const std::vector<int32_t> lengths{5, 0, 1, 64, 2, 65, 3, 4, 63, 129};

Parameters parameters_of(models::Attention& a) {
  nn::ModelState state;
  a.visit(state);
  Parameters out;
  for (const Parameter* p : state.parameters)
    out[p->name] = Matrix(p->value.reshaped({p->value.shape()[0], p->value.count() / std::max<int64_t>(1, p->value.shape()[0])}));
  return out;
}

Matrix rows_of(const Matrix& x, int64_t first, int64_t count) {
  Matrix out(count, x.columns);
  std::copy_n(x.values.begin() + first * x.columns, count * x.columns, out.values.begin());
  return out;
}

// Columns of one head.
std::vector<double> of_head(const Matrix& x, int head, int head_dim) {
  std::vector<double> out;
  for (int64_t r = 0; r < x.rows; ++r)
    for (int d = 0; d < head_dim; ++d) out.push_back(x(r, head * head_dim + d));
  return out;
}

std::function<double(int32_t, int32_t)> kept_of(int head, const Kept& kept) {
  if (!kept) return {};
  return [head, &kept](int32_t i, int32_t j) { return kept(head, i, j); };
}

// o [n,D] of one head.
std::vector<double> head_output(const models::Heads& heads, const models::DenseInput& in) {
  std::vector<double> o = heads.dense_output(in);
  if (!o.empty() || in.n == 0) return o;
  std::vector<double> w = heads.dense_weights(in);
  const auto d = static_cast<size_t>(in.head_dim);
  const auto sees = [&](size_t i, size_t j) { return heads.allowed(in.n, in.head, static_cast<int32_t>(i), static_cast<int32_t>(j)); };
  if (w.empty()) w = models::dense::softmax_weights(in.q(), in.k(), d, sees);
  models::dense::drop(w, static_cast<size_t>(in.n), in.kept);
  return models::dense::weighted(w, in.v(), d);
}

Matrix dense_heads(const models::HeadAttention& a, const Parameters& p, const Matrix& x, const Packing& packing,
                   const Structures* structures, const Kept& kept = {}) {
  const int64_t dim = x.columns;
  std::vector<Matrix> projected;
  const auto part = [&](const Matrix& rows, size_t i) {
    return project(rows, p.at("attention." + a.parts()[i] + ".weight"), p.at("attention." + a.parts()[i] + ".bias"));
  };
  for (size_t i = 0; i < a.parts().size(); ++i) projected.push_back(part(x, i));
  Matrix o(x.rows, dim);
  const int head_dim = a.group_of(0).settings().head_dim;
  for (int b = 0; b < packing.sequences(); ++b)
    for (int h = 0; h < dim / head_dim; ++h) {
      const int32_t first = packing.offsets()[static_cast<size_t>(b)], n = packing.length(b);
      models::DenseInput in{.n = n, .head = h, .head_dim = head_dim, .structures = structures, .sequence = b, .first = first};
      for (const Matrix& whole : projected) in.projected.push_back(of_head(rows_of(whole, first, n), h, head_dim));
      const Matrix own = rows_of(x, first, n);
      in.x = own.values;
      in.kept = kept_of(h, kept);
      in.project_rows = [&](std::span<const double> rows, size_t i) {
        Matrix m(static_cast<int64_t>(rows.size()) / dim, dim);
        m.values.assign(rows.begin(), rows.end());
        return of_head(part(m, i), h, head_dim);
      };
      const std::vector<double> of_one = head_output(a.group_of(h), in);
      for (int32_t i = 0; i < n; ++i)
        for (int d = 0; d < head_dim; ++d) o(first + i, h * head_dim + d) = of_one[static_cast<size_t>(i * head_dim + d)];
    }
  return project(o, p.at("attention.output.weight"), p.at("attention.output.bias"));
}

bool same_bytes(const Tensor& a, const Tensor& b) { return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0; }

double dropout_of(const AttentionCase& c) {
  for (const models::HeadGroup& group : c.settings.attention.layers[static_cast<size_t>(c.layer)])
    if (!group.variant->has_probabilities) return 0;
  return 0.3;
}

// The same away from what it starts with: where biases are 0 and copies equal their originals, much that is wrong does not show.
std::unique_ptr<models::Attention> moved_attention(const AttentionCase& c, Dtype dtype, double dropout = 0) {
  auto out = make_attention(c, dtype, dropout);
  nn::ModelState state;
  out->visit(state);
  for (size_t p = 0; p < state.parameters.size(); ++p) {
    const Tensor& value = state.parameters[p]->value;
    const Matrix step(random_tensor(Dtype::f64, {value.count()}, static_cast<uint32_t>(100 + p), 0.1));
    for (int64_t i = 0; i < value.count(); ++i)
      if (dtype == Dtype::f64) value.data<double>()[i] += step.values[static_cast<size_t>(i)];
      else value.data<float>()[i] += static_cast<float>(step.values[static_cast<size_t>(i)]);
  }
  return out;
}

}  // namespace

AttentionCase attention_case(const std::string& name, const std::vector<std::string>& overrides) {
  return {name, model_settings(overrides)};
}

std::unique_ptr<models::Attention> make_attention(const AttentionCase& c, Dtype dtype, double dropout) {
  models::AttentionLayers layers = c.settings.attention;
  layers.dropout = dropout;
  return models::make_attention({.seed = 5, .dtype = dtype}, "attention", {.dim = c.settings.dim, .max_length = 300, .layer = c.layer},
                                layers);
}

Packing packing_for(const AttentionCase& c, std::vector<int32_t> own_lengths, uint32_t first_id) {
  std::vector<uint32_t> ids;
  for (size_t b = 0; b < own_lengths.size(); ++b) ids.push_back(first_id + static_cast<uint32_t>(b));
  for (int32_t& n : own_lengths) n += c.settings.attention.extra_rows.count;
  return Packing(own_lengths, ids);
}

Tensor attention_output(models::Attention& a, const TestDevice& on, const Tensor& x, const Packing& packing, Structures* structures) {
  Context context{.on = on.on, .dtype = on.dtype};
  context.structures = structures;
  return a.forward(context, {x, no_node}, packing, {.residual = {Tensor::zeros(on.dtype, x.shape()), no_node}}).x.value;
}

AttentionPass::AttentionPass(const AttentionCase& c, int32_t n) : attention(make_attention(c, Dtype::f64)) {
  attention->visit(state);
  const Tensor rows = random_tensor(Dtype::f64, {n, c.settings.dim}, 3);
  x = Matrix(rows);
  y = Matrix(attention_output(*attention, test_devices().front(), rows, Packing({n}, {0}), &structures));
}

Matrix AttentionPass::parameter(const std::string& name) const {
  for (const Parameter* p : state.parameters)
    if (p->name == "attention." + name) return Matrix(p->value);
  FAIL("no parameter " << name);
  return {};
}

Matrix AttentionPass::projected(const std::string& part) const { return project(x, parameter(part + ".weight"), parameter(part + ".bias")); }

Matrix dense_attention(models::Attention& a, const Matrix& x, const Packing& packing, const Structures* structures) {
  const Parameters p = parameters_of(a);
  if (const auto* heads = dynamic_cast<const models::HeadAttention*>(&a)) return dense_heads(*heads, p, x, packing, structures);
  Matrix y(x.rows, x.columns);
  for (int b = 0; b < packing.sequences(); ++b) {
    const int32_t first = packing.offsets()[static_cast<size_t>(b)], n = packing.length(b);
    const std::vector<double> one = a.dense_output(n, rows_of(x, first, n).values);
    std::copy(one.begin(), one.end(), y.values.begin() + first * x.columns);
  }
  return y;
}

void check_oracle(const AttentionCase& c) {
  const Packing packing = packing_for(c, lengths);
  for (const TestDevice& device : test_devices()) {
    INFO(c.name << " on " << device.name);
    const auto attention = moved_attention(c, device.dtype);
    const Tensor x = random_tensor(device.dtype, {packing.rows(), c.settings.dim}, 11);
    Structures chosen;
    const Matrix y(attention_output(*attention, device, x, packing, &chosen));
    const double error = relative_error(y, dense_attention(*attention, Matrix(x), packing, &chosen));
    INFO("relative error " << error);
    CHECK(error <= c.value_slack * std::min(device.tolerance, 1e-5));
  }
}

void check_batch_mates(const AttentionCase& c) {
  for (const TestDevice& device : test_devices()) {
    const auto attention = moved_attention(c, device.dtype), trained = moved_attention(c, device.dtype, dropout_of(c));
    const Packing packing = packing_for(c, lengths);
    const Tensor x = random_tensor(device.dtype, {packing.rows(), c.settings.dim}, 12);
    const Tensor together = attention_output(*attention, device, x, packing);
    const Tensor dx = gradients_of(*trained, device.on, device.dtype, x, packing)[0];
    for (int b = 0; b < packing.sequences(); ++b) {
      INFO(c.name << " on " << device.name << ", sequence " << b << " of length " << lengths[static_cast<size_t>(b)]);
      const int64_t first = packing.offsets()[static_cast<size_t>(b)], n = packing.length(b);
      const Packing own = packing_for(c, {lengths[static_cast<size_t>(b)]}, static_cast<uint32_t>(b));
      const Tensor own_x = x.rows(first, n).clone();
      CHECK(same_bytes(attention_output(*attention, device, own_x, own), together.rows(first, n)));
      CHECK(same_bytes(gradients_of(*trained, device.on, device.dtype, own_x, own)[0], dx.rows(first, n)));
    }
  }
}

void check_nan_stays(const AttentionCase& c) {
  for (const TestDevice& device : test_devices()) {
    INFO(c.name << " on " << device.name);
    const auto attention = moved_attention(c, device.dtype);
    const Packing packing = packing_for(c, {5, 6, 7});
    const int64_t first = packing.offsets()[1], end = packing.offsets()[2], rows = packing.rows();
    const Tensor x = random_tensor(device.dtype, {rows, c.settings.dim}, 13);
    const Tensor before = attention_output(*attention, device, x, packing);
    if (device.dtype == Dtype::f32) x.data<float>()[(end - 1) * c.settings.dim] = NAN;
    else x.data<double>()[(end - 1) * c.settings.dim] = NAN;
    const Tensor after = attention_output(*attention, device, x, packing);
    CHECK(same_bytes(before.rows(0, first), after.rows(0, first)));
    CHECK(same_bytes(before.rows(end, rows - end), after.rows(end, rows - end)));
  }
}

void check_gradients(const AttentionCase& c) {
  const TestDevice& device = test_devices().front();
  const Packing packing = packing_for(c, {4, 1, 7, 16});
  const auto attention = moved_attention(c, Dtype::f64, dropout_of(c));
  Structures kept;
  Differentiated f(*attention, device.on, Dtype::f64, packing);
  f.structures = &kept;
  const Tensor x = random_tensor(Dtype::f64, {packing.rows(), c.settings.dim}, 14);
  const Tensor dx = f.backward(x);
  const auto check = [&](const std::string& name, const Tensor& value, const Tensor& gradient) {
    double largest = 0, worst = 0;
    for (int64_t i = 0; i < value.count(); i += std::max<int64_t>(1, value.count() / 64)) {
      double& v = value.data<double>()[i];
      const double held = v, step = 1e-6;
      v = held + step;
      const std::vector<double> up = f.terms(x);
      v = held - step;
      const std::vector<double> down = f.terms(x);
      v = held;
      double quotient = 0;
      for (size_t k = 0; k < up.size(); ++k) quotient += (up[k] - down[k]) / (2 * step);
      largest = std::max(largest, std::abs(quotient));
      worst = std::max(worst, std::abs(quotient - gradient.data<double>()[i]));
    }
    INFO(c.name << " " << name << ": " << worst << " of " << largest);
    CHECK(worst <= c.gradient_slack * (1e-6 * std::max(1e-2, largest) + 1e-8));
  };
  check("x", x, dx);
  for (const Parameter* p : f.state.parameters) check(p->name, p->value, p->gradient);
}

std::vector<Tensor> gradients_of(models::Attention& a, const Execution& on, Dtype dtype, const Tensor& x, const Packing& packing) {
  Differentiated f(a, on, dtype, packing);
  std::vector<Tensor> out{f.backward(x)};
  for (const Parameter* p : f.state.parameters) out.push_back(p->gradient.clone());
  return out;
}

bool all_finite(const Tensor& t) {
  const Matrix m(t.reshaped({t.count()}));
  return std::ranges::all_of(m.values, [](double v) { return std::isfinite(v); });
}

// Float on the cpu device with what it decided itself, double on the reference device with the same.
void check_devices_agree(const AttentionCase& c) {
  const Packing packing = packing_for(c, {5, 1, 64, 0, 2, 65, 129});
  ThreadPool pool(2);
  const auto run = [&](const Execution& on, Dtype dtype, Structures& chosen) {
    const auto attention = moved_attention(c, dtype, dropout_of(c));
    Differentiated f(*attention, on, dtype, packing);
    f.structures = &chosen;
    std::vector<Tensor> out{f.backward(random_tensor(dtype, {packing.rows(), c.settings.dim}, 20))};
    for (const Parameter* p : f.state.parameters) out.push_back(p->gradient.reshaped({p->gradient.count()}));
    return out;
  };
  Structures chosen;
  const std::vector<Tensor> fast = run({Device::cpu, &pool}, Dtype::f32, chosen);
  for (auto& [name, structure] : chosen)
    if (structure.dtype() == Dtype::f32) structure = structure.converted(Dtype::f64);
  const std::vector<Tensor> exact = run(test_devices().front().on, Dtype::f64, chosen);
  REQUIRE(fast.size() == exact.size());
  double largest = 0;
  for (const Tensor& gradient : exact)
    for (const double g : gradient.span<double>()) largest = std::max(largest, std::abs(g));
  for (size_t i = 0; i < fast.size(); ++i) {
    // Some gradients are sums that cancel to nothing, as of what is added to all keys alike.
    const double error = relative_error(Matrix(fast[i]), Matrix(exact[i]), 0.1 * largest);
    INFO(c.name << ": gradient " << i << " of " << fast.size() << ", relative error " << error);
    CHECK(error <= c.value_slack * 1e-4);
  }
}

void check_threads(const AttentionCase& c) {
  const Packing packing = packing_for(c, {3, 65, 1, 70, 130, 6, 200, 299, 12, 40});
  const Tensor x = random_tensor(Dtype::f32, {packing.rows(), c.settings.dim}, 16);
  std::vector<Tensor> expected;
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    const auto attention = moved_attention(c, Dtype::f32, dropout_of(c));
    const std::vector<Tensor> got = gradients_of(*attention, {Device::cpu, &pool}, Dtype::f32, x, packing);
    if (threads == 1) expected = got;
    INFO(c.name << " with " << threads << " threads");
    REQUIRE(got.size() == expected.size());
    for (size_t i = 0; i < got.size(); ++i) CHECK(same_bytes(got[i], expected[i]));
  }
}

Context dropping(const TestDevice& device) {
  return {.on = device.on, .mode = Mode::train, .seed = 9, .step = 3, .dtype = device.dtype};
}

Kept kept_by(std::string purpose) {
  return [purpose](int head, int32_t i, int32_t j) {
    const Draw draw{random_key(9, purpose, "attention", head), dropped_sample, 3};
    return draw.word(static_cast<uint32_t>(i), static_cast<uint32_t>(j)) < dropout_threshold(0.3) ? 0 : 1 / 0.7;
  };
}

Matrix attend(const Matrix& q, const Matrix& k, const Matrix& v, int heads, const Kept& kept) {
  const auto head_dim = static_cast<int>(q.columns / heads);
  Matrix o(q.rows, q.columns);
  for (int h = 0; h < heads; ++h) {
    std::vector<double> w =
        models::dense::softmax_weights(of_head(q, h, head_dim), of_head(k, h, head_dim), static_cast<size_t>(head_dim));
    models::dense::drop(w, static_cast<size_t>(k.rows), kept_of(h, kept));
    const std::vector<double> of_one = models::dense::weighted(w, of_head(v, h, head_dim), static_cast<size_t>(head_dim));
    for (int64_t i = 0; i < q.rows; ++i)
      for (int d = 0; d < head_dim; ++d) o(i, h * head_dim + d) = of_one[static_cast<size_t>(i * head_dim + d)];
  }
  return o;
}

void check_dropout(const AttentionCase& c, const DropoutRow& row) {
  for (const TestDevice& device : test_devices()) {
    const int32_t n = 70 + c.settings.attention.extra_rows.count;
    const Packing packing({n}, {dropped_sample});
    const auto attention = moved_attention(c, device.dtype, 0.3);
    const Tensor x = random_tensor(device.dtype, {n, c.settings.dim}, 17);
    Structures chosen;
    Context context = dropping(device);
    context.structures = &chosen;
    const Variable residual{Tensor::zeros(device.dtype, x.shape()), no_node};
    const Matrix y(attention->forward(context, {x, no_node}, packing, {.residual = residual}).x.value);
    const Kept kept = [&](int head, int32_t i, int32_t j) {
      const auto [purpose, of] = row ? row(chosen, head, i, j) : std::pair("attention_dropout", i);
      return kept_by(purpose)(head, of, j);
    };
    const double error = relative_error(
        y, dense_heads(dynamic_cast<models::HeadAttention&>(*attention), parameters_of(*attention), Matrix(x), packing, &chosen, kept));
    INFO(c.name << " on " << device.name << ": relative error " << error);
    CHECK(error <= c.value_slack * device.tolerance);
  }
}

void check_attention(const AttentionCase& c) {
  check_oracle(c);
  check_batch_mates(c);
  check_nan_stays(c);
  check_gradients(c);
  check_devices_agree(c);
  check_threads(c);
}

}  // namespace tapeformer::test
