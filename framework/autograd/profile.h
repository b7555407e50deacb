// SPDX-License-Identifier: Apache-2.0
// Where a step's time goes: each op reports its time, and its work by the formula. Off (no Profile given), a scope is one test of a
// pointer.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tapeformer {

// A multiply-add counts 2; other arithmetic, exp, erf and roots 1 each. Bytes: every array that is read or written, once.
struct Work {
  double flops = 0, bytes = 0;
};
struct OpWork {
  Work forward, backward;
};

enum class Pass : uint8_t { forward, backward, other };  // other: what is no op, such as the optimiser
constexpr std::string_view name_of(Pass p) {
  constexpr std::string_view names[] = {"forward", "backward", "other"};
  return names[static_cast<int>(p)];
}

// Sums by op and pass. Used by one thread: the one that builds and walks the tape.
class Profile {
 public:
  struct Line {
    std::string op;
    Pass pass = Pass::other;
    int64_t calls = 0;
    double seconds = 0;
    Work work;
  };
  void add(std::string_view op, Pass pass, double seconds, const Work& work);
  // The costliest first.
  std::vector<Line> lines() const;
  void clear() { lines_.clear(); }

 private:
  friend class ProfileScope;
  std::vector<Line> lines_;
  class ProfileScope* innermost_ = nullptr;
};

class Tape;
struct Context;

// Times its own lifetime, less that of the scopes inside it. In an op's forward it also gives the nodes recorded meanwhile their work,
// which Tape::backward reports with the time of their closures.
class ProfileScope {
 public:
  ProfileScope(Profile* profile, std::string_view op, Pass pass = Pass::other, const Work& work = {}) : profile_(profile) {
    if (profile_) begin(op, pass, {work, {}}, nullptr);
  }
  // An op's forward; `work` returns its OpWork and is called only when a profile is on.
  template <class F>
  ProfileScope(const Context& context, std::string_view op, F&& work);
  ~ProfileScope() {
    if (profile_) end();
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  void begin(std::string_view op, Pass pass, const OpWork& work, Tape* tape);
  void end();

  Profile* profile_;
  Tape* tape_ = nullptr;
  ProfileScope* outer_ = nullptr;
  std::string_view op_;
  Pass pass_ = Pass::other;
  OpWork work_;
  size_t nodes_before_ = 0;
  double inside_ = 0;  // seconds of the scopes within this one
  Clock::time_point began_;
};

}  // namespace tapeformer
