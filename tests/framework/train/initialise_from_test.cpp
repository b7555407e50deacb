// SPDX-License-Identifier: Apache-2.0
// Starting from the weights of another run: everything or what a pattern names, and what the file lacks is a copy of what was taken where
// it is one by its nature.
#include "framework/train/checkpoint.h"
#include "tests/support/catch.h"
#include "tests/support/matrix.h"
#include "tests/support/random_tensor.h"

using namespace tapeformer;
using namespace tapeformer::test;
using Catch::Matchers::ContainsSubstring;

namespace {

// A query of four rows, a copy of its last two, and something else.
struct Model {
  Parameter query{"a.query.weight", random_tensor(Dtype::f32, {4, 3}, 1), {}};
  Parameter copy{"a.global_query.weight", random_tensor(Dtype::f32, {2, 3}, 2), {}};
  Parameter other{"b.weight", random_tensor(Dtype::f32, {3}, 3), {}};
  nn::ModelState state;

  Model() {
    copy.copy_of = {"a.query.weight", 2};
    for (Parameter* p : {&copy, &query, &other}) state.parameter(*p);
  }
};

std::vector<double> values(const Tensor& t) { return Matrix(t.reshaped({t.count()})).values; }

io::Checkpoint trained(bool with_copy) {
  io::Checkpoint c;
  c.tensors["/model/a.query.weight"] = random_tensor(Dtype::f32, {4, 3}, 11);
  c.tensors["/model/b.weight"] = random_tensor(Dtype::f32, {3}, 13);
  if (with_copy) c.tensors["/model/a.global_query.weight"] = random_tensor(Dtype::f32, {2, 3}, 12);
  return c;
}

}  // namespace

TEST_CASE("what the file lacks and what is a copy by its nature becomes a copy of what was taken", "[initialise_from]") {
  for (const char* pattern : {"", "*", "a.*"}) {
    INFO("pattern '" << pattern << "'");
    Model m;
    const io::Checkpoint file = trained(false);
    const train::TakeCounts counts = train::initialise_from(file, "run", m.state, pattern);
    const bool all = std::string_view(pattern) != "a.*";
    CHECK(counts.names.size() == (all ? 2 : 1));
    CHECK(counts.copied == 1);
    CHECK(counts.left_as_initialised == (all ? 0 : 1));
    CHECK(values(m.query.value) == values(file.tensors.at("/model/a.query.weight")));
    CHECK(values(m.copy.value) == values(m.query.value.rows(2, 2)));
  }
}

TEST_CASE("what the file has is taken from it, and what the pattern leaves out stays", "[initialise_from]") {
  Model all, one;
  const io::Checkpoint file = trained(true);
  CHECK(train::initialise_from(file, "run", all.state, "").copied == 0);
  CHECK(values(all.copy.value) == values(file.tensors.at("/model/a.global_query.weight")));
  const std::vector<double> before = values(one.copy.value);
  const train::TakeCounts counts = train::initialise_from(trained(false), "run", one.state, "a.query.*");
  CHECK(counts.names.size() == 1);
  CHECK(counts.copied == 0);
  CHECK(values(one.copy.value) == before);
}

TEST_CASE("a file without the original is refused", "[initialise_from]") {
  Model m;
  io::Checkpoint file = trained(false);
  file.tensors.erase("/model/a.query.weight");
  const std::vector<double> before = values(m.other.value);
  CHECK_THROWS_WITH(train::initialise_from(file, "run", m.state, ""), ContainsSubstring("missing in the file: /model/a.query.weight"));
  CHECK(values(m.other.value) == before);
}
