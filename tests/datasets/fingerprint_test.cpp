// SPDX-License-Identifier: Apache-2.0
#include "datasets/fingerprint.h"

#include "tests/datasets/files.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::testing;

namespace {

std::string yaml(const std::string& name, const std::string& more = "") {
  return "data:\n  task: classification\n  train: {path: DIR/" + name + ", text: text, label: label}\n" + more;
}

std::string of(const Directory& d, const std::string& text) {
  return datasets::fingerprint(settings_of(text, d), {.parts = {data::Part::train}});
}

}  // namespace

TEST_CASE("a fingerprint follows the bytes and the settings, not the place") {
  Directory d;
  const std::string content = "text\tlabel\none two\ta\nthree\tb\n";
  d.write("a.tsv", content);
  d.write("b.tsv", content);
  d.write("c.tsv", "text\tlabel\none two\ta\nthrew\tb\n");
  const std::string first = of(d, yaml("a.tsv"));
  CHECK(first.size() == 32);
  CHECK(of(d, yaml("a.tsv")) == first);
  CHECK(of(d, yaml("b.tsv")) == first);
  CHECK(of(d, yaml("c.tsv")) != first);
  CHECK(of(d, yaml("a.tsv", "  max_length: 7\n")) != first);
  CHECK(of(d, yaml("a.tsv", "  split: {valid: 0.5}\n")) != first);
  const Fault fault = fault_of([&] { of(d, yaml("none.tsv")); });
  CHECK(fault.code == static_cast<int>(ExitCode::data));
  CHECK(fault.says("none.tsv"));
}
