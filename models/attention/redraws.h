// SPDX-License-Identifier: Apache-2.0
// The state of what an attention draws at random: how often it was drawn anew, kept as the buffer `<name>.redraws`. A draw is a function of
// (run's seed, layer, head, count), so whatever is made from it can be made again after a checkpoint was read.
#pragma once
#include "framework/core/random.h"
#include "models/attention/heads.h"

namespace tapeformer::models {

class Redraws {
 public:
  Redraws(const nn::Builder& build, const HeadSettings& settings)
      : seed_(build.seed),
        layer_name_(settings.layer_name),
        first_head_(settings.first_head),
        count_{settings.name + ".redraws", Tensor::zeros(Dtype::i64, {1})} {}

  // 0 at the start.
  int64_t count() const { return count_.value.data<int64_t>()[0]; }
  void visit(nn::Visitor& visitor) { visitor.buffer(count_); }
  // To be called in after_update: true after every `every` updates of the run, when it is time to draw anew; never where it is frozen.
  bool advance(const Context& context, int64_t every = 1) {
    if (count_.frozen || context.step % every != 0) return false;
    ++count_.value.data<int64_t>()[0];
    return true;
  }
  // `head` counts in the group. Rows and columns are free for the purpose's use.
  Draw draw(std::string_view purpose, int head) const { return made(random_key(seed_, purpose, layer_name_, first_head_ + head)); }
  Draw draw(std::string_view purpose, int head, int round) const {
    return made(random_key(seed_, purpose, layer_name_, first_head_ + head, round));
  }
  // Of all heads together.
  Draw shared_draw(std::string_view purpose) const { return made(random_key(seed_, purpose, layer_name_)); }

 private:
  Draw made(uint64_t key) const { return {key, no_sample, static_cast<uint32_t>(count())}; }

  uint64_t seed_;
  std::string layer_name_;
  int first_head_;
  nn::Buffer count_;
};

}  // namespace tapeformer::models
