// SPDX-License-Identifier: Apache-2.0
// Row N-11 of the fault tables: what an approximation of full attention loses falls with its budget, and is nothing where theory says so.
#include <algorithm>
#include <cmath>
#include <set>

#include "tests/support/catch.h"
#include "tests/support/devices.h"
#include "tests/support/matrix.h"
#include "tests/support/model_fixture.h"

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

// The section of a variant with a budget from 1 (least) to 64 (all rows).
struct Family {
  std::string (*with_budget)(int64_t);
  double noise = 1.1;  // by which a larger budget may lose: means and draws of different budgets have little in common
  double left = 1e-5;  // with all rows
};

const std::vector<Family> families{
    {[](int64_t n) { return fmt::format("local={{left: {0}, right: {0}}}", n); }},
    {[](int64_t n) { return fmt::format("local={{form: blocked, block: {}}}", n); }},
    {[](int64_t n) { return fmt::format("stride={{stride: 1, reach: {}}}", n); }},
    {[](int64_t n) { return fmt::format("global={{count: {}}}", n); }},
    {[](int64_t n) { return fmt::format("longformer={{left: {0}, right: {0}}}", n); }},
    {[](int64_t n) { return fmt::format("bigbird={{block: 4, random_blocks: {}}}", n); }},
    {[](int64_t n) { return fmt::format("sparse_transformer={{pattern: fixed, stride: 8, summary: {}}}", std::max<int64_t>(1, n / 8)); }},
    {[](int64_t n) { return fmt::format("compressed={{mode: mean, factor: {}}}", 64 / n); }, 1.5},
    {[](int64_t n) { return fmt::format("nystrom={{landmarks: {}, kernel: 0}}", n); }, 1.5},
    {[](int64_t n) { return fmt::format("cluster={{clusters: {}}}", 64 / n); }},
    {[](int64_t n) { return fmt::format("clustered={{clusters: {}, bits: 64}}", n); }, 1.1, 5e-4},  // some queries have the same bits
    {[](int64_t n) { return fmt::format("improved_clustered={{clusters: 4, topk: {}}}", n); }},
    {[](int64_t n) { return fmt::format("sinkhorn={{block: {}}}", n); }},
    {[](int64_t n) { return fmt::format("performer={{features: {}}}", 16 * n); }, 1.5, 0.1},
};

// The others have weights of another kind: no budget brings them near full attention, or only with matrices that nothing starts with.
const std::set<std::string> others{"full", "global_external", "linformer", "induced", "luna",  "reformer",   "routing", "linear",
                                   "rfa",  "efficient",       "cosformer", "fnet",    "mixer", "synthesizer"};

std::string variant_of(const std::string& section) { return section.substr(0, section.find('=')); }

Matrix outputs(const std::string& section, const TestDevice& device, const data::Batch& batch) {
  const auto model = models::make_model({.seed = 3, .dtype = device.dtype},
                                        model_settings({"~model.attention.local.left", "~model.attention.local.right",
                                                        "model.attention.type=" + variant_of(section), "model.attention." + section,
                                                        "model.dim=16", "model.attention.heads=2"}),
                                        token_description());
  Context context{.on = device.on, .mode = Mode::evaluate, .dtype = device.dtype};
  return Matrix(model->forward(context, batch).value);
}

double mean_difference(const Matrix& a, const Matrix& b) {
  double sum = 0;
  for (size_t i = 0; i < a.values.size(); ++i) sum += std::abs(a.values[i] - b.values[i]);
  return sum / static_cast<double>(a.values.size());
}

}  // namespace

TEST_CASE("N-11: what approximates full attention comes nearer to it as it sees more, and is it when it sees all") {
  const data::Batch batch = token_batch(token_description(), {64, 61, 50, 64, 33, 64});
  for (const TestDevice& device : test_devices()) {
    const Matrix full = outputs("full={}", device, batch);
    for (const Family& family : families) {
      INFO(family.with_budget(1) << " and more on " << device.name);
      std::vector<double> errors;
      for (int64_t budget = 1; budget <= 64; budget *= 8) errors.push_back(mean_difference(outputs(family.with_budget(budget), device, batch), full));
      CAPTURE(errors);
      CHECK(errors.front() > 1e-3);
      for (size_t i = 1; i < errors.size(); ++i) CHECK(errors[i] <= family.noise * errors[i - 1]);
      CHECK(errors.back() <= family.left);
    }
  }
}

TEST_CASE("N-11: every variant is in the sweep, or is no approximation") {
  std::set<std::string> named = others, registered;
  for (const Family& family : families) CHECK_FALSE(others.contains(variant_of(family.with_budget(1))));
  for (const Family& family : families) named.insert(variant_of(family.with_budget(1)));
  for (const auto& v : models::attention_variants()) registered.emplace(v.name);
  CHECK(named == registered);
}
