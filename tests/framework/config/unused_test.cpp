// SPDX-License-Identifier: Apache-2.0
// Keys that another leaves without meaning: a fault in one file, a warning across files, and never one that keeps a run from being read.
#include "tests/framework/config/sample.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::config;
using namespace tapeformer::config::sample;

namespace {

struct Shape {
  bool round = false;
  double radius = 1, side = 2;

  void read(Section s) {
    s.field("round", round, "Whether it is a circle.");
    s.field("radius", radius, above(0), "Of the circle.");
    s.field("side", side, above(0), "Of the square.");
    s.unused(round ? "side" : "radius", s.path("round"));
  }
};

Document read_shape(Document document) {
  Shape().read(document.root().section("shape", "What is drawn."));
  return document;
}

const std::string square = "shape: {radius: 3, side: 4}\n";

}  // namespace

TEST_CASE("a key without meaning is a fault that names both", "[quick]") {
  Document one = read_shape(Document::from_text(square, "c.yaml", {}));
  CHECK(error_of([&] { one.finish(); }) ==
        "c.yaml:1:9: error: 'shape.radius' has no meaning with 'shape.round: false'\n    1 | shape: {radius: 3, side: 4}\n"
        "      |         ^~~~~~\n  remove it\n1 error; nothing was started.");
  Document given = read_shape(Document::from_text("shape: {round: true, side: 4}\n", "c.yaml", {}));
  CHECK(contains(error_of([&] { given.finish(); }), "'shape.side' has no meaning with 'shape.round: true'"));
  Document both = read_shape(Document::from_text("{}\n", "c.yaml", {"shape.round=true", "shape.side=4"}));
  CHECK(contains(error_of([&] { both.finish(); }), "'shape.side' has no meaning"));
  CHECK(read_shape(Document::from_text("shape: {round: true, side: 2}\n", "c.yaml", {})).finish().empty());  // the default's value
}

TEST_CASE("a key that an override leaves without meaning is a warning, and the resolved config reads back", "[quick]") {
  Document document = read_shape(Document::from_text("shape: {side: 4, radius: 3, round: true}\n", "c.yaml", {"shape.round=false"}));
  REQUIRE(document.finish().size() == 1);
  const std::string resolved = document.resolved();
  CHECK(resolved ==
        "shape:  # from: c.yaml:1\n"
        "  round: false  # from: command line\n"
        "  radius: 1  # from: default; c.yaml:1 has no meaning with shape.round: false\n"
        "  side: 4  # from: c.yaml:1\n");
  CHECK(document.values().at("shape.radius") == "1");
  CHECK(contains(document.explain("shape.radius"), "has no meaning with shape.round: false"));
  Document again = read_shape(Document::from_text(resolved, "resolved.yaml", {}));
  CHECK(again.finish().empty());
  CHECK(again.values() == document.values());
}

TEST_CASE("what a stored config has without meaning stays, what an override adds is said", "[quick]") {
  Document stored = read_shape(Document::from_checkpoint(square, "step.h5", {}));
  CHECK(stored.finish().empty());
  CHECK_FALSE(stored.meaningless());
  CHECK(stored.values().at("shape.radius") == "3");
  Document overridden = read_shape(Document::from_checkpoint("shape: {side: 4}\n", "step.h5", {"shape.radius=5"}));
  CHECK(contains(error_of([&] { overridden.finish(); }), "'shape.radius' has no meaning"));
  Document beside = read_shape(Document::from_checkpoint("shape: {round: false, side: 4}\n", "step.h5", {"shape.radius=5"}));
  CHECK(beside.finish().size() == 1);
  CHECK(beside.values().at("shape.radius") == "1");
  CHECK(beside.given_values().at("shape.radius") == "5");
}

TEST_CASE("a reason that is no value, and one that an override takes away", "[quick]") {
  Document odd = read_shape(Document::from_text("shape: {round: maybe, radius: 3}\n", "c.yaml", {}));
  const std::string report = error_of([&] { odd.finish(); });
  CHECK(contains(report, "'shape.round' must be"));
  CHECK_FALSE(contains(report, "no meaning"));
  Document removed = read_shape(Document::from_text("shape: {round: true, radius: 3}\n", "c.yaml", {"~shape.round"}));
  CHECK(removed.finish().size() == 1);
  CHECK(removed.meaningless());
}

TEST_CASE("what is not there has an exit code of its own where it is the only fault", "[quick]") {
  for (const bool alone : {true, false}) {
    CAPTURE(alone);
    Document document = Document::from_text(alone ? "shape: {side: 4}\n" : "shape: {side: 4, colour: 1}\n", "c.yaml", {});
    Section shape = document.root().section("shape", "What is drawn.");
    Shape().read(shape);
    shape.unavailable("side", "'shape.side' needs a ruler", "draw a circle");
    const std::string report = error_of([&] { document.finish(); }, alone ? ExitCode::unavailable : ExitCode::usage);
    CHECK(contains(report, "c.yaml:1:9: error: 'shape.side' needs a ruler"));
    CHECK(contains(report, "unknown key 'colour'") != alone);
    Document looked_at = Document::from_text("shape: {side: 4}\n", "c.yaml", {});
    looked_at.allow_unavailable();
    looked_at.root().section("shape", "What is drawn.").unavailable("side", "'shape.side' needs a ruler", "draw a circle");
    CHECK_FALSE(looked_at.faulty());
  }
}
