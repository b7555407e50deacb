// SPDX-License-Identifier: Apache-2.0
// Settings from the command line.
#include "tests/framework/config/sample.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::config;
using namespace tapeformer::config::sample;

namespace {
const std::string file = "model:\n  dim: 32\n  note: file\n  attention: {type: local, heads: 4}\ntrain: {seed: 5}\n";
}

TEST_CASE("overrides set, replace, merge and remove", "[quick]") {
  const Settings s = read_text(file, {"model.dim=48", "model.attention={type: [full, linear]}", "optim.betas=[0.1, 0.2]", "~train.seed",
                                      "model.note=no", "train.classes=[1.0, ~]", "train.weights.a=2", "optim.warmup=2k"});
  CHECK(s.dim == 48);
  CHECK(s.attention == std::vector<size_t>{0, 2});
  CHECK(s.heads == 4);
  CHECK(s.betas == std::vector<double>{0.1, 0.2});
  CHECK(s.seed == 1);
  CHECK(s.note == "no");
  CHECK(s.classes == std::vector<std::string>{"1.0", "~"});
  CHECK(s.weights == std::vector<std::pair<std::string, double>>{{"a", 2}});
  CHECK(s.warmup == 2000);
  CHECK(read_text(file, {"model.dim=1", "model.dim=2"}).dim == 2);
  CHECK(read_text(file, {"~model", "model.dim=2"}).note == "plain");
  CHECK(read_text(file, {"model.dim=2", "~model.dim"}).dim == 64);
  CHECK(read_text(file, {"model.note=a=b"}).note == "a=b");
  CHECK(read_text(file, {"model.note=''"}).note.empty());
  CHECK(read_text(file, {"model.note='a: b # c'"}).note == "a: b # c");
  CHECK(read_text(file, {"model={dim: 3}"}).note == "file");
}

TEST_CASE("faults of overrides name the override", "[quick]") {
  const auto check = [](const std::string& text, const std::string& message, const std::string& hint) {
    const std::string report = report_of(file, {text});
    INFO(report);
    CHECK(contains(report, "command line: '" + text + "': error: " + message));
    CHECK(contains(report, hint));
    CHECK(contains(report, "1 error; nothing was started."));
  };
  check("optim.learning_rate=fast", "'optim.learning_rate' must be a number > 0, found \"fast\"\n", "");
  check("optim.learning_rat=1", "unknown key 'learning_rat' in 'optim'", "did you mean 'learning_rate'?");
  check("optm.learning_rate=1", "unknown key 'optm' at the top level", "did you mean 'optim'?");
  check("dim=3", "unknown key 'dim' at the top level", "'dim' is a key of 'model'");
  check("model.dim", "not an override", "key.path=value");
  check("model..dim=3", "not an override", "key.path=value");
  check("=3", "not an override", "");
  check(".model=3", "not an override", "");
  check("model.=3", "not an override", "");
  check("~", "not an override", "");
  check("", "not an override", "");
  check("model.dim=", "'model.dim' must be an integer >= 1, found nothing", "");
  check("model.dim=1,5", "'model.dim' must be an integer >= 1, found 1,5", "");
  check("model.dim.x=3", "'model.dim' is no section: it holds 32", "");
  check("model.pooling.x=3", "'model.pooling' must be one of mean, max, first, found a map", "");
  check("~model.dmi", "nothing to remove: 'model.dmi' is not given in the config", "did you mean '~model.dim'?");
  check("~optim", "nothing to remove: 'optim'", "");
  check("base=x.yaml", "'base' can only stand in a file", "");
  check("model.note='x", "this ' is never closed", "");
  check("model.note=*x", "an alias", "");
  check("model.attention=[full", "a key must be a word, found a bracket", "close the bracket");
  check("train.weights={a: 1, a: 2}", "duplicate key 'a'", "");
  check("model.note=@x", "a value can't start with this character", "");
}

TEST_CASE("overrides are safe: control bytes, depth, size", "[quick]") {
  const std::string escape = report_of(file, {"model.note=\x1b[31m"});
  CHECK(contains(escape, "command line: 'model.note=\\x1b[31m': error: control character 0x1b"));
  CHECK_FALSE(contains(escape, "\x1b"));
  CHECK(contains(report_of(file, {"mo\ndel.dim=3"}), "command line: 'mo\\ndel.dim=3'"));
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "a.";
  CHECK(contains(report_of(file, {deep + "a=3"}), "not an override"));
  std::string long_path = "a";
  for (int i = 0; i < 50; ++i) long_path += ".a";
  CHECK(contains(report_of(file, {long_path + "=" + std::string(30, '[') + std::string(30, ']')}), "more than 64 levels"));
}

TEST_CASE("faults of the file come before those of the command line", "[quick]") {
  const std::string report = report_of("model: {dim: x}\n", {"train.seed=x"});
  CHECK(report.find("c.yaml:1:14") < report.find("command line"));
  CHECK(contains(report, "2 errors;"));
}
