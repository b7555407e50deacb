// SPDX-License-Identifier: Apache-2.0
// What a document prints: the resolved config with its origins, values, the reference, explanations.
#include "framework/config/document.h"

#include "tests/framework/config/sample.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::config;
using namespace tapeformer::config::sample;

namespace {

const std::string text =
    "model:\n  dim: 48\n  note: \"a: 'b' # \\\"c\\\" \\\\ \\n\\t é\"\n  attention: {type: [local, full]}\noptim:\n  learning_rate: 1e-5\n"
    "train: {classes: [no, '', 1.0, \"x, y\"], weights: {no: 1, \"a: b\": .5}}\n";

Document read_document(const std::string& yaml, const std::vector<std::string>& overrides = {}, const std::string& name = "c.yaml") {
  Document document = Document::from_text(yaml, name, overrides);
  read(document.root());
  document.finish();
  return document;
}

}  // namespace

TEST_CASE("the resolved config shows every key with its origin", "[quick]") {
  const Document document = read_document("model:\n  dim: 48\n  note: \"no\"\noptim: {betas: [0, 1e-5]}\n", {"optim.learning_rate=3e-4"});
  CHECK(document.resolved() ==
        "model:  # from: c.yaml:1\n"
        "  dim: 48  # from: c.yaml:2\n"
        "  dropout: 0.1  # from: default\n"
        "  tied: false  # from: default\n"
        "  note: \"no\"  # from: c.yaml:3\n"
        "  pooling: mean  # from: default\n"
        "  attention:  # from: default\n"
        "    type: full  # from: default\n"
        "    heads: 2  # from: default\n"
        "optim:  # from: c.yaml:4\n"
        "  learning_rate: 3.0e-04  # from: command line\n"
        "  betas: [0, 1.0e-05]  # from: c.yaml:4\n"
        "  halvings: 60  # from: default\n"
        "  warmup: 1000  # from: default\n"
        "train:  # from: default\n"
        "  seed: 1  # from: default\n"
        "  rows: 5  # from: default\n"
        "  threads: auto  # from: default\n"
        "  classes: []  # from: default\n"
        "  weights: {}  # from: default\n");
}

TEST_CASE("the resolved config reads back to equal values", "[quick]") {
  for (const std::vector<std::string>& overrides :
       {std::vector<std::string>{}, {"train.threads=3", "model.dropout=0.30000000000000004", "train.rows=-1"}}) {
    const Document first = read_document(text, overrides);
    const Document second = read_document(first.resolved(), {}, "resolved.yaml");
    CHECK(second.values() == first.values());
    CHECK(read_text(first.resolved()) == read_text(text, overrides));
    CHECK(lines_with(second.resolved(), "# from: resolved.yaml:") == lines_with(first.resolved(), "\n"));
  }
  CHECK(read_text(read_document(text).resolved()).note == "a: 'b' # \"c\" \\ \n\t é");
}

TEST_CASE("values are keyed by their dotted path", "[quick]") {
  const auto values = read_document(text).values();
  CHECK(values.at("model.dim") == "48");
  CHECK(values.at("model.attention.type") == "[local, full]");
  CHECK(values.at("optim.learning_rate") == "1.0e-05");
  CHECK(values.at("train.threads") == "auto");
  CHECK(values.size() == 16);
}

TEST_CASE("a name with a newline breaks no line", "[quick]") {
  const Document document = read_document("model: {dim: 4}\n", {}, "a\nb: c.yaml");
  CHECK(contains(document.resolved(), "dim: 4  # from: a\\nb: c.yaml:1\n"));
  CHECK(read_text(document.resolved()).dim == 4);
}

TEST_CASE("explain tells where a value comes from and what it overrode", "[quick]") {
  const TemporaryDirectory d("explain");
  const std::string base = d.write("base.yaml", "optim: {learning_rate: 5e-4, warmup: 7}\n").string();
  const auto file = d.write("run.yaml", "base: base.yaml\noptim:\n  learning_rate: 1e-4\n");
  Document document = Document::load(file, {"optim.learning_rate=3e-4", "~optim.warmup"});
  read(document.root());
  document.finish();
  CHECK(document.explain("optim.learning_rate") == "optim.learning_rate = 3.0e-04\n  from command line\n  overrides " + file.string() +
                                                       ":3: 1e-4\n  overrides " + base +
                                                       ":1: 5e-4\n  overrides default: 0.001\n  a number > 0: Peak rate.\n");
  CHECK(document.explain("optim.warmup") == "optim.warmup = 1000\n  from default\n  overrides command line: removed\n  overrides " + base +
                                                ":1: 7\n  a count (such as 500, 50k or 2.5M) >= 0: Steps until the peak.\n");
  CHECK(contains(document.explain("model"), "The network."));
  CHECK(contains(error_of([&] { document.explain("optim.learnin_rate"); }), "did you mean 'optim.learning_rate'?"));
  CHECK(contains(error_of([&] { document.explain("heads"); }), "did you mean 'model.attention.heads'?"));
  CHECK(document.user_text() == "base: base.yaml\noptim:\n  learning_rate: 1e-4\n");
}

TEST_CASE("the reference lists every key with type, default and help", "[quick]") {
  Document document = Document::empty();
  CHECK(read(document.root()) == Settings{});
  CHECK(document.finish().empty());
  const std::string all = document.reference();
  CHECK(contains(all, "model: The network.\n  model.dim: an integer >= 1; default 64\n      Width of a row.\n"));
  for (const auto& [key, value] : document.values()) CHECK(contains(all, "  " + key + ": "));
  CHECK(document.reference("model.pooling") == "  model.pooling: one of mean, max, first; default mean\n      How rows become one.\n");
  CHECK(contains(document.reference("model.attention"), "model.attention.heads: an integer between 1 and 256; default 2"));
  CHECK_FALSE(contains(document.reference("model.attention"), "model.dim"));
  CHECK(contains(error_of([&] { document.reference("model.poling"); }), "did you mean 'model.pooling'?"));
}

TEST_CASE("the user's bytes are kept as they are", "[quick]") {
  const std::string bytes = "\xEF\xBB\xBFmodel: {dim: 4}  # c\r\n";
  CHECK(read_document(bytes).user_text() == bytes);
}

TEST_CASE("finishing twice gives the same report", "[quick]") {
  Document document = Document::from_text("modle: 3\n", "c.yaml", {});
  read(document.root());
  const std::string first = error_of([&] { document.finish(); });
  CHECK(contains(first, "1 error;"));
  CHECK(error_of([&] { document.finish(); }) == first);
}
