// SPDX-License-Identifier: Apache-2.0
// Linformer: all ways of sharing, what a matrix that presses nothing gives, columns beyond the longest sequence, and lengths it cannot
// take.
#include "models/encoder.h"
#include "tests/support/attention_battery.h"
#include "tests/support/catch.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

const std::string key = "model.attention.linformer.";

AttentionCase linformer(std::vector<std::string> overrides, const std::string& name = "linformer") {
  overrides.push_back("model.attention.type=linformer");
  return attention_case(name, overrides);
}

Parameter& parameter(models::Attention& attention, std::string_view name) {
  nn::ModelState state;
  attention.visit(state);
  for (Parameter* p : state.parameters)
    if (p->name == name) return *p;
  FAIL("no parameter " << name);
  return *state.parameters[0];
}

// Every matrix below the other becomes the identity.
void set_identity(const Tensor& stacked) {
  const int64_t n = stacked.shape()[1];
  stacked.fill_zero();
  for (int64_t r = 0; r < stacked.shape()[0]; ++r) stacked.data<double>()[r * n + r % n] = 1;
}

void check_fault(const std::function<void()>& make, const std::vector<std::string>& words, ExitCode code = ExitCode::usage) {
  try {
    make();
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.code() == code);
    for (const std::string& word : words) CHECK_THAT(e.what(), Catch::Matchers::ContainsSubstring(word));
  }
}

}  // namespace

TEST_CASE("each way of sharing matrices keeps what every attention keeps", "[linformer]") {
  for (const char* share : {"none", "head", "kv", "layer"})
    for (const char* scale : {"false", "true"}) {
      if (std::string(share) != "none" && std::string(share) != "kv" && *scale == 't') continue;
      check_attention(
          linformer({key + "rank=5", key + "share=" + share, key + "length_scale=" + scale}, fmt::format("{} {}", share, scale)));
    }
  check_attention(linformer({key + "rank=70", key + "max_length=400"}, "more slots than a tile"));
  check_attention(linformer({"model.dim=15", "model.attention.heads=3", key + "rank=4", key + "share=none"}, "heads of 5"));
}

TEST_CASE("linformer drops what a row takes from a slot", "[linformer]") {
  check_dropout(linformer({key + "rank=5"}));
  check_dropout(linformer({key + "rank=70", key + "max_length=400", key + "share=none"}));
}

TEST_CASE("parameters are as many as the sharing says", "[linformer]") {
  for (const auto& [share, rows] : std::vector<std::pair<std::string, int64_t>>{{"none", 20}, {"head", 10}, {"kv", 5}, {"layer", 5}}) {
    const auto attention = make_attention(linformer({key + "rank=5", key + "share=" + share}), Dtype::f64);
    const Parameter& p = parameter(*attention, share == "layer" ? "encoder.linformer.compression" : "attention.compression");
    CHECK(p.value.shape() == Shape{rows, 300});
    // Each matrix has its own start, Xavier with gain 1 / sqrt(2).
    const double bound = std::sqrt(0.5 * 6 / 305);
    for (int64_t m = 0; m < rows; m += 5) {
      CHECK(std::abs(p.value.data<double>()[m * 300]) <= bound);
      if (m > 0) CHECK(p.value.data<double>()[m * 300] != p.value.data<double>()[0]);
    }
  }
}

TEST_CASE("matrices that press nothing give full attention at the longest length only", "[linformer]") {
  const TestDevice& device = test_devices().front();
  const auto full = make_attention(attention_case("full", {"model.attention.type=full"}), Dtype::f64);
  for (const char* share : {"none", "head", "kv", "layer"}) {
    const auto attention = make_attention(linformer({key + "rank=300", key + "share=" + share}), Dtype::f64);
    set_identity(parameter(*attention, std::string(share) == "layer" ? "encoder.linformer.compression" : "attention.compression").value);
    for (const int32_t n : {300, 299}) {
      const Packing packing({n}, {0});
      const Tensor x = random_tensor(Dtype::f64, {n, 8}, 21);
      const double error =
          relative_error(Matrix(attention_output(*attention, device, x, packing)), Matrix(attention_output(*full, device, x, packing)));
      INFO(share << " " << n << " " << error);
      if (n == 300) CHECK(error <= 1e-10);
      else CHECK(error > 1e-6);  // a slot of zeros keeps the weight exp(0)
    }
  }
}

TEST_CASE("slots keep their variance with length_scale", "[linformer]") {
  const TestDevice& device = test_devices().front();
  const auto plain = make_attention(linformer({key + "rank=5"}), Dtype::f64);
  const auto scaled = make_attention(linformer({key + "rank=5", key + "length_scale=true"}), Dtype::f64);
  for (const int32_t n : {300, 75}) {
    const Packing packing({n}, {0});
    const Tensor x = random_tensor(Dtype::f64, {n, 8}, 22);
    const bool same = relative_error(Matrix(attention_output(*scaled, device, x, packing)),
                                     Matrix(attention_output(*plain, device, x, packing))) <= 1e-12;
    CHECK(same == (n == 300));
  }
  // With sqrt(300 / 75) = 2 in the matrix itself the unscaled one gives the same.
  Parameter& p = parameter(*plain, "attention.compression");
  for (double& v : p.value.span<double>()) v *= 2;
  const Packing packing({75}, {0});
  const Tensor x = random_tensor(Dtype::f64, {75, 8}, 23);
  CHECK(relative_error(Matrix(attention_output(*scaled, device, x, packing)), Matrix(attention_output(*plain, device, x, packing))) <=
        1e-12);
}

TEST_CASE("columns beyond the longest sequence get no gradient", "[linformer]") {
  const data::Description d = token_description();
  for (const TestDevice& device : test_devices())
    for (const char* share : {"kv", "layer"}) {
      models::Encoder encoder({.seed = 1, .dtype = device.dtype},
                              model_settings({"model.attention.type=linformer", key + "rank=5", key + "share=" + share}), d);
      Tape tape(device.on);
      Context context{.on = device.on, .tape = &tape, .mode = Mode::evaluate, .dtype = device.dtype};
      tape.backward(encoder.forward(context, token_batch(d, {3, 9, 0, 7})).x);
      nn::ModelState state;
      encoder.visit(state);
      int found = 0;
      for (const Parameter* p : state.parameters) {
        if (p->name.find("compression") == std::string::npos) continue;
        ++found;
        const Matrix gradient(p->gradient);
        for (int64_t r = 0; r < gradient.rows; ++r)
          for (int64_t c = 0; c < gradient.columns; ++c) CHECK((gradient(r, c) != 0) == (c < 9));
      }
      CHECK(found == (std::string(share) == "kv" ? 2 : 1));
    }
}

TEST_CASE("the matrix of all layers gets the sum of their gradients", "[linformer]") {
  const TestDevice& device = test_devices().front();
  const data::Description d = token_description();
  models::Encoder encoder({.seed = 1, .dtype = Dtype::f64},
                          model_settings({"model.attention.type=[linformer, linformer]", key + "rank=5", key + "share=layer"}), d);
  const data::Batch batch = token_batch(d, {3, 9, 7});
  nn::ModelState state;
  encoder.visit(state);
  Parameter* shared = nullptr;
  for (Parameter* p : state.parameters)
    if (p->name == "encoder.linformer.compression") shared = p;
  REQUIRE(shared);
  const auto sum = [&](Tape* tape) {
    Context context{.on = device.on, .tape = tape, .mode = Mode::evaluate, .dtype = Dtype::f64};
    const Variable x = encoder.forward(context, batch).x;
    Tensor weights = random_tensor(Dtype::f64, x.value.shape(), 24);
    double total = 0;
    for (int64_t i = 0; i < x.value.count(); ++i) total += x.value.data<double>()[i] * weights.data<double>()[i];
    if (!tape) return total;
    const int seed = tape->record("weights", [&](Tape& t, const Tensor&) { t.add_gradient(x.node, weights); });
    tape->backward({Tensor::zeros(Dtype::f64, {1}), seed});
    return total;
  };
  Tape tape(device.on);
  sum(&tape);
  for (int64_t i = 0; i < shared->value.count(); i += 101) {
    double& value = shared->value.data<double>()[i];
    const double held = value, step = 1e-6;
    value = held + step;
    const double up = sum(nullptr);
    value = held - step;
    const double down = sum(nullptr);
    value = held;
    CHECK(std::abs((up - down) / (2 * step) - shared->gradient.data<double>()[i]) <= 1e-7);
  }
}

TEST_CASE("sequences longer than the matrix are refused and both keys are named", "[linformer]") {
  check_fault([] { make_attention(linformer({key + "max_length=299"}), Dtype::f64); },
              {key + "max_length", "data.max_length", "299", "300"});
  CHECK_NOTHROW(make_attention(linformer({key + "max_length=300"}), Dtype::f64));
  check_fault([] { linformer({key + "max_length=0"}); }, {key + "max_length", "auto"});
  const auto attention = make_attention(linformer({}), Dtype::f64);
  const Packing packing({2, 301}, {0, 1});
  check_fault(
      [&] {
        attention_output(*attention, test_devices().front(), random_tensor(Dtype::f64, {303, 8}, 25), packing);
      },
      {key + "max_length", "301", "300"}, ExitCode::data);
}

TEST_CASE("layers that share a matrix must agree on its size", "[linformer]") {
  const AttentionCase c = attention_case("groups", {"~model.attention.heads",
                                                    "model.attention.groups=[{type: linformer, linformer: {share: layer, rank: 4}}, {type: "
                                                    "linformer, linformer: {share: layer, rank: 5}}]"});
  check_fault([&] { make_attention(c, Dtype::f64); }, {"rank", "max_length", "attention.groups.1"});
}

TEST_CASE("cost and pairs of slots", "[linformer]") {
  const auto attention = make_attention(linformer({key + "rank=5"}), Dtype::f64);
  const models::AttentionCost cost = attention->cost({10, 3});
  CHECK(cost.forward_flops == 8.0 * 13 * 5 * 8);
  CHECK(cost.backward_flops == 18.0 * 13 * 5 * 8);
  CHECK(cost.saved_bytes == 4.0 * (2 * 13 + 2 * 2 * 5 * 8));
  CHECK(attention->pairs(10) == 50);
}
