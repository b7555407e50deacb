// SPDX-License-Identifier: Apache-2.0
// The keys, words and orders of philox.json, which tools/golden/philox.py computed on its own, come out of the library to the bit.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "framework/core/random.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using Json = nlohmann::json;

namespace {

Json golden() {
  std::ifstream file("tests/golden/philox.json");
  REQUIRE(file);
  return Json::parse(file);
}

uint64_t key_of(const Json& c) {
  const auto seed = c["seed"].get<uint64_t>();
  const auto purpose = c["purpose"].get<std::string>(), name = c["name"].get<std::string>();
  if (c["head"].is_null()) return random_key(seed, purpose, name);
  if (c["round"].is_null()) return random_key(seed, purpose, name, c["head"].get<int>());
  return random_key(seed, purpose, name, c["head"].get<int>(), c["round"].get<int>());
}

}  // namespace

TEST_CASE("every purpose draws its known words", "[golden]") {
  const Json cases = golden()["draws"];
  REQUIRE(cases.size() >= 22);
  for (const Json& c : cases) {
    INFO(c.dump());
    const uint64_t key = key_of(c);
    CHECK(key == c["key"].get<uint64_t>());
    for (const Json& d : c["draws"]) {
      const auto row = d["row"].get<uint32_t>(), column = d["column"].get<uint32_t>();
      const Draw draw{key, d["sample"].get<uint32_t>(), d["step"].get<uint32_t>()};
      CHECK(draw.word(row, column) == d["word"].get<uint32_t>());
      CHECK(draw.uniform(row, column) == d["uniform"].get<double>());
      CHECK(std::abs(draw.gaussian(row, column) - d["gaussian"].get<double>()) <= 1e-14);
      CHECK(philox({column / 4, row, draw.sample, draw.step}, key) == d["block"].get<PhiloxWords>());
    }
  }
}

TEST_CASE("the order of the data is the known one", "[golden]") {
  const Json orders = golden()["orders"];
  REQUIRE(orders.size() >= 6);
  for (const Json& o : orders) {
    INFO(o.dump());
    const KeyedPermutation order(random_key(o["seed"].get<uint64_t>(), "order", "data"), o["epoch"].get<uint32_t>(),
                                 o["n"].get<uint64_t>());
    for (size_t i = 0; i < o["first"].size(); ++i) CHECK(order(i) == o["first"][i].get<uint64_t>());
  }
}
