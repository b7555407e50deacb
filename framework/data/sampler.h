// SPDX-License-Identifier: Apache-2.0
// Which samples make up step s: the order of an epoch is a keyed permutation of (seed, epoch, index), cut into batches by samples or by
// tokens. The position is two numbers, so a run resumes in the middle of an epoch without walking through it.
#pragma once
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace tapeformer::data {

struct SamplerSettings {
  uint64_t seed = 0;
  bool shuffle = true;
  int64_t batch_size = 32;   // samples of a batch; or, where > 0,
  int64_t batch_tokens = 0;  // the most rows of a batch (a longer sample is a batch of its own)
};

struct SamplerPosition {
  int64_t epoch = 0;
  int64_t cursor = 0;  // samples of the epoch already used
};

class Sampler {
 public:
  // length(index) is asked only when batch_tokens > 0.
  Sampler(SamplerSettings, int64_t samples, std::function<int32_t(int64_t)> length);
  // The next batch from the position, which moves on; at the end of an epoch the cursor goes back to 0 and the epoch up by one.
  // A batch never crosses an epoch; the last one may be smaller.
  std::vector<int64_t> next();
  const SamplerPosition& position() const { return position_; }
  void seek(SamplerPosition);
  // Batches of an epoch; exact for batch_size, counted by walking for batch_tokens.
  int64_t batches_per_epoch(int64_t epoch) const;

 private:
  SamplerSettings settings_;
  int64_t samples_;
  std::function<int32_t(int64_t)> length_;
  SamplerPosition position_;
};

}  // namespace tapeformer::data
