// SPDX-License-Identifier: Apache-2.0
#include "framework/autograd/profile.h"

#include <algorithm>

#include "framework/autograd/tape.h"

namespace tapeformer {

void Profile::add(std::string_view op, Pass pass, double seconds, const Work& work) {
  const auto same = [&](const Line& l) { return l.pass == pass && l.op == op; };
  auto line = std::find_if(lines_.begin(), lines_.end(), same);
  if (line == lines_.end()) line = lines_.insert(lines_.end(), {std::string(op), pass});
  ++line->calls;
  line->seconds += seconds;
  line->work.flops += work.flops;
  line->work.bytes += work.bytes;
}

std::vector<Profile::Line> Profile::lines() const {
  std::vector<Line> sorted = lines_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Line& a, const Line& b) { return a.seconds > b.seconds; });
  return sorted;
}

void ProfileScope::begin(std::string_view op, Pass pass, const OpWork& work, Tape* tape) {
  op_ = op;
  pass_ = pass;
  work_ = work;
  tape_ = tape;
  if (tape_) nodes_before_ = tape_->size();
  outer_ = std::exchange(profile_->innermost_, this);
  began_ = Clock::now();
}

void ProfileScope::end() {
  const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  profile_->innermost_ = outer_;
  if (outer_) outer_->inside_ += seconds;
  profile_->add(op_, pass_, seconds - inside_, work_.forward);
  if (tape_ && tape_->size() > nodes_before_) tape_->note_work(op_, work_.backward);
}

}  // namespace tapeformer
