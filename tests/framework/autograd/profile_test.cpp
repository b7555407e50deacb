// SPDX-License-Identifier: Apache-2.0
// The profile: sums by op and pass, time of nested scopes counted once, the work of closures.
#include "framework/autograd/profile.h"

#include <thread>

#include "framework/autograd/context.h"
#include "tests/support/catch.h"

using namespace tapeformer;

namespace {

// Keeps the clock running for at least this long.
void spend(std::chrono::milliseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
}

const Profile::Line& line(const std::vector<Profile::Line>& lines, std::string_view op, Pass pass) {
  for (const Profile::Line& l : lines)
    if (l.op == op && l.pass == pass) return l;
  FAIL("no line " << op << " " << name_of(pass));
  return lines.front();
}

// An op that records a node.
int op(Context& ctx, std::string_view name, const OpWork& work) {
  const ProfileScope profile(ctx, name, [&] { return work; });
  return ctx.tape->record("node", [](Tape&, const Tensor&) {});
}

}  // namespace

TEST_CASE("a line is the sum of its calls, the costliest line is first", "[profile]") {
  Profile profile;
  profile.add("a", Pass::forward, 1, {10, 100});
  profile.add("b", Pass::forward, 5, {1, 1});
  profile.add("a", Pass::forward, 2, {20, 200});
  profile.add("a", Pass::backward, 4, {40, 400});
  const auto lines = profile.lines();
  REQUIRE(lines.size() == 3);
  CHECK((lines[0].op == "b" && lines[1].pass == Pass::backward && lines[2].op == "a"));
  CHECK((lines[2].calls == 2 && lines[2].seconds == 3 && lines[2].work.flops == 30 && lines[2].work.bytes == 300));
  profile.clear();
  CHECK(profile.lines().empty());
}

TEST_CASE("the time of an inner scope is not the outer one's", "[profile]") {
  Profile profile;
  const auto began = std::chrono::steady_clock::now();
  {
    const ProfileScope outer(&profile, "outer");
    for (int i = 0; i < 2; ++i) {
      const ProfileScope inner(&profile, "inner");
      spend(std::chrono::milliseconds(3));
    }
  }
  const double all = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  const auto lines = profile.lines();
  CHECK(line(lines, "inner", Pass::other).calls == 2);
  CHECK(line(lines, "inner", Pass::other).seconds >= 0.006);
  CHECK(line(lines, "inner", Pass::other).seconds + line(lines, "outer", Pass::other).seconds <= all);
}

TEST_CASE("closures are reported under their op with its backward work", "[profile]") {
  Profile profile;
  Tape tape(Execution{}, &profile);
  Context ctx{.on = {}, .tape = &tape, .dtype = Dtype::f64, .inspect = {}, .profile = &profile};
  tape.record("unknown", [](Tape&, const Tensor&) {});
  op(ctx, "twice", {{1, 2}, {3, 4}});
  {
    const ProfileScope outer(ctx, "outer", [] { return OpWork{{0, 0}, {500, 500}}; });
    op(ctx, "twice", {{1, 2}, {5, 6}});  // the inner op is the one that recorded
  }
  const Variable last{Tensor::zeros(Dtype::f64, {1}), tape.record("loss", [](Tape& t, const Tensor& g) {
                        for (int node = 0; node < 3; ++node) t.add_gradient(node, g);
                      })};
  tape.backward(last);
  const auto lines = profile.lines();
  CHECK(lines.size() == 5);
  CHECK(line(lines, "twice", Pass::forward).work.flops == 2);
  CHECK(line(lines, "twice", Pass::backward).calls == 2);
  CHECK(line(lines, "twice", Pass::backward).work.flops == 8);
  CHECK(line(lines, "twice", Pass::backward).work.bytes == 10);
  CHECK(line(lines, "unknown", Pass::backward).work.flops == 0);
  CHECK(line(lines, "loss", Pass::backward).calls == 1);
  CHECK(line(lines, "outer", Pass::forward).calls == 1);
}

TEST_CASE("without a profile the work is not even computed", "[profile]") {
  Tape tape(Execution{});
  Context ctx{.on = {}, .tape = &tape, .dtype = Dtype::f64, .inspect = {}};
  bool asked = false;
  {
    const ProfileScope scope(ctx, "op", [&] {
      asked = true;
      return OpWork{};
    });
  }
  CHECK_FALSE(asked);
}
