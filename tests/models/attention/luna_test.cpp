// SPDX-License-Identifier: Apache-2.0
// Luna: two dense attentions one after the other, and the second stream: how it starts, goes on, and leaves the rows' norms alone.
#include "framework/core/random.h"
#include "models/encoder.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

const std::string key = "model.attention.luna.";

AttentionCase luna(std::vector<std::string> overrides, const std::string& name = "luna") {
  overrides.push_back("model.attention.type=luna");
  return attention_case(name, overrides);
}

std::map<std::string, Parameter*> parameters(const std::function<void(nn::Visitor&)>& visit) {
  nn::ModelState state;
  visit(state);
  std::map<std::string, Parameter*> out;
  for (Parameter* p : state.parameters) CHECK(out.emplace(p->name, p).second);
  return out;
}

Matrix apply(const Matrix& in, const std::map<std::string, Parameter*>& p, const std::string& name) {
  return project(in, Matrix(p.at(name + ".weight")->value), Matrix(p.at(name + ".bias")->value));
}

// The learned points and their sinusoids.
Matrix start_of(const std::map<std::string, Parameter*>& p) {
  Matrix stream(p.at("encoder.luna.points")->value);
  for (int64_t r = 0; r < stream.rows; ++r)
    for (int64_t c = 0; c < 8; ++c) {
      const double angle = static_cast<double>(r) * std::pow(10000.0, -static_cast<double>(c / 2 * 2) / 8);
      stream(r, c) += c % 2 ? std::cos(angle) : std::sin(angle);
    }
  return stream;
}

// Norm(a + b) with gain 1 and shift 0.
Matrix normalised_sum(const Matrix& a, const Matrix& b) {
  Matrix y(a.rows, a.columns);
  for (int64_t r = 0; r < a.rows; ++r) {
    double mean = 0, square = 0;
    for (int64_t c = 0; c < a.columns; ++c) {
      y(r, c) = a(r, c) + b(r, c);
      mean += y(r, c) / static_cast<double>(a.columns);
    }
    for (int64_t c = 0; c < a.columns; ++c) square += (y(r, c) - mean) * (y(r, c) - mean) / static_cast<double>(a.columns);
    for (int64_t c = 0; c < a.columns; ++c) y(r, c) = (y(r, c) - mean) / std::sqrt(square + 1e-5);
  }
  return y;
}

}  // namespace

TEST_CASE("luna keeps what every attention keeps", "[luna]") {
  for (const int points : {1, 5, 70})
    for (const char* tied : {"true", "false"})
      check_attention(
          luna({fmt::format("{}points={}", key, points), key + "tie_kv=" + tied}, fmt::format("{} points, tied {}", points, tied)));
}

TEST_CASE("luna takes heads of any width", "[luna]") {
  check_attention(luna({"model.dim=15", "model.attention.heads=3", key + "points=4"}, "heads of 5"));
}

TEST_CASE("keys and values share a projection unless they are untied", "[luna]") {
  for (const bool tied : {true, false}) {
    const auto attention = make_attention(luna({fmt::format("{}tie_kv={}", key, tied)}), Dtype::f64);
    const auto p = parameters([&](nn::Visitor& v) { attention->visit(v); });
    CHECK(p.count("attention.pack.key_value.weight") == tied);
    CHECK(p.count("attention.key_value.weight") == tied);
    CHECK(p.count("attention.pack.value.weight") != tied);
    CHECK(p.count("attention.value.weight") != tied);
    CHECK(p.count("attention.pack.output.weight") == 0);
    CHECK(p.at("encoder.luna.points")->value.shape() == Shape{32, 8});
  }
}

TEST_CASE("the stream of the next layer is the norm of the old one plus what it packed", "[luna]") {
  const TestDevice& device = test_devices().front();
  const auto attention = make_attention(luna({key + "points=3"}), Dtype::f64);
  const auto p = parameters([&](nn::Visitor& v) { attention->visit(v); });
  const Packing packing({7}, {0});
  const Tensor x = random_tensor(Dtype::f64, {7, 8}, 61);
  Matrix stream = start_of(p);
  Variable carried;
  for (int layer = 0; layer < 3; ++layer) {
    Context context{.on = device.on, .dtype = Dtype::f64};
    const Matrix shown(attention->weights(context, {x, no_node}, packing, {.second_stream = &carried}));
    const Tensor y =
        attention
            ->forward(context, {x, no_node}, packing, {.residual = {Tensor::zeros(Dtype::f64, {7, 8}), no_node}, .second_stream = &carried})
            .x.value;
    const Matrix rows(x), context_rows = apply(rows, p, "attention.pack.key_value");
    const Matrix packed = attend(apply(stream, p, "attention.pack.query"), context_rows, context_rows, 2);
    const Matrix keys = apply(packed, p, "attention.key_value");
    CHECK(relative_error(Matrix(y), apply(attend(apply(rows, p, "attention.query"), keys, keys, 2), p, "attention.output")) <= 1e-12);
    // A value that is 1 in row j of all columns gives column j of each head's weights.
    for (int64_t j = 0; j < 7; ++j) {
      Matrix one(7, 8);
      for (int64_t c = 0; c < 8; ++c) one(j, c) = 1;
      const Matrix of_points = attend(apply(stream, p, "attention.pack.query"), context_rows, one, 2);
      const Matrix column = attend(apply(rows, p, "attention.query"), keys, of_points, 2);
      for (int64_t h = 0; h < 2; ++h)
        for (int64_t i = 0; i < 7; ++i) CHECK(std::abs(shown(h * 7 + i, j) - column(i, 4 * h)) <= 1e-12);
    }
    stream = normalised_sum(stream, packed);
    CHECK(relative_error(Matrix(carried.value), stream) <= 1e-12);
  }
}

TEST_CASE("pack, unpack and the stream have draws of their own", "[luna]") {
  for (const TestDevice& device : test_devices()) {
    INFO(device.name);
    const auto attention = make_attention(luna({key + "points=5"}), device.dtype, 0.3);
    const auto p = parameters([&](nn::Visitor& v) { attention->visit(v); });
    const Packing packing({70}, {dropped_sample});
    const Tensor x = random_tensor(device.dtype, {70, 8}, 61);
    Variable carried;
    Context context = dropping(device);
    const models::Sublayer around{
        .residual = {Tensor::zeros(device.dtype, {70, 8}), no_node}, .dropout = 0.2, .second_stream = &carried};
    const Matrix y(attention->forward(context, {x, no_node}, packing, around).x.value);
    const Matrix rows(x), context_rows = apply(rows, p, "attention.pack.key_value"), stream = start_of(p);
    Matrix packed = attend(apply(stream, p, "attention.pack.query"), context_rows, context_rows, 2, kept_by("pack_dropout"));
    const Matrix keys = apply(packed, p, "attention.key_value");
    Matrix expected =
        apply(attend(apply(rows, p, "attention.query"), keys, keys, 2, kept_by("attention_dropout")), p, "attention.output");
    const auto drop = [](Matrix& m, const char* name) {
      const Draw draw{random_key(9, "dropout", name), dropped_sample, 3};
      for (int64_t r = 0; r < m.rows; ++r)
        for (int64_t c = 0; c < m.columns; ++c)
          m(r, c) *= draw.word(static_cast<uint32_t>(r), static_cast<uint32_t>(c)) < dropout_threshold(0.2) ? 0 : 1 / 0.8;
    };
    drop(packed, "attention.pack");
    drop(expected, "attention");
    CHECK(relative_error(y, expected) <= 10 * device.tolerance);
    CHECK(relative_error(Matrix(carried.value), normalised_sum(stream, packed)) <= 10 * device.tolerance);
  }
}

TEST_CASE("the stream starts once, runs through all layers of luna and takes gradients back", "[luna]") {
  const TestDevice& device = test_devices().front();
  const data::Description d = token_description();
  for (const char* types : {"luna", "[luna, full]", "[full, luna]"}) {
    models::Encoder encoder({.seed = 1, .dtype = Dtype::f64},
                            model_settings({fmt::format("model.attention.type={}", types), key + "points=3"}), d);
    const auto p = parameters([&](nn::Visitor& v) { encoder.visit(v); });
    CHECK(p.count("encoder.luna.points") == 1);
    const data::Batch batch = token_batch(d, {3, 0, 9, 1});
    const auto sum = [&](Tape* tape) {
      Context context{.on = device.on, .tape = tape, .mode = Mode::train, .seed = 4, .step = 2, .dtype = Dtype::f64};
      const Variable x = encoder.forward(context, batch).x;
      const Tensor weights = random_tensor(Dtype::f64, x.value.shape(), 62);
      double total = 0;
      for (int64_t i = 0; i < x.value.count(); ++i) total += x.value.data<double>()[i] * weights.data<double>()[i];
      if (!tape) return total;
      const int seed = tape->record("weights", [&](Tape& t, const Tensor&) { t.add_gradient(x.node, weights); });
      tape->backward({Tensor::zeros(Dtype::f64, {1}), seed});
      return total;
    };
    Tape tape(device.on);
    sum(&tape);
    for (const auto& [name, parameter] : p) {
      if (name.find("luna") == std::string::npos && name.find("pack") == std::string::npos && name.find("stream") == std::string::npos)
        continue;
      for (int64_t i = 0; i < parameter->value.count(); i += 1 + parameter->value.count() / 5) {
        double& value = parameter->value.data<double>()[i];
        const double held = value, step = 1e-6;
        value = held + step;
        const double up = sum(nullptr);
        value = held - step;
        const double down = sum(nullptr);
        value = held;
        INFO(types << " " << name << " " << i);
        CHECK(std::abs((up - down) / (2 * step) - parameter->gradient.data<double>()[i]) <= 2e-6);
      }
    }
    const double of_stream_norm = p.count("encoder.layers.0.attention.stream_norm.weight")
                                      ? p.at("encoder.layers.0.attention.stream_norm.weight")->gradient.data<double>()[1]
                                      : 0;
    CHECK((of_stream_norm != 0) == (std::string(types) == "luna"));
  }
}

TEST_CASE("shown weights of pack and unpack sum to one", "[luna]") {
  const auto attention = make_attention(luna({key + "points=5"}), Dtype::f64);
  Context context{.on = test_devices().front().on, .dtype = Dtype::f64};
  const Matrix w(attention->weights(context, {random_tensor(Dtype::f64, {11, 8}, 63), no_node}, Packing({11}, {0}), {}));
  REQUIRE(w.rows == 22);
  for (int64_t r = 0; r < 22; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < 11; ++c) sum += w(r, c);
    CHECK(std::abs(sum - 1) <= 1e-12);
  }
}

TEST_CASE("luna needs a whole layer", "[luna]") {
  CHECK_THROWS_WITH(model_settings({"~model.attention.heads", "model.attention.groups=[{type: luna, heads: 2}]"}),
                    Catch::Matchers::ContainsSubstring("model.attention.groups") && Catch::Matchers::ContainsSubstring("whole layer"));
}

TEST_CASE("cost and pairs of the stream", "[luna]") {
  const auto tied = make_attention(luna({key + "points=5"}), Dtype::f64);
  const models::AttentionCost cost = tied->cost({10, 3});
  CHECK(cost.forward_flops == 8.0 * 13 * 5 * 8 + 2 * 4 * 5 * 64);
  CHECK(cost.backward_flops == 20.0 * 13 * 5 * 8 + 2 * 8 * 5 * 64);
  CHECK(tied->projections() == 3);
  CHECK(make_attention(luna({key + "tie_kv=false"}), Dtype::f64)->projections() == 4);
  CHECK(tied->pairs(10) == 50);
}
