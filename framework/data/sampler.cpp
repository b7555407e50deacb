// SPDX-License-Identifier: Apache-2.0
#include "framework/data/sampler.h"

#include <algorithm>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/random.h"

namespace tapeformer::data {
namespace {

// The samples of an epoch in their order.
class Order {
 public:
  Order(const SamplerSettings& settings, int64_t epoch, int64_t samples)
      : shuffle_(settings.shuffle),
        permutation_(random_key(settings.seed, "order", "data"), static_cast<uint32_t>(epoch), static_cast<uint64_t>(samples)) {}
  int64_t operator()(int64_t place) const { return shuffle_ ? static_cast<int64_t>(permutation_(static_cast<uint64_t>(place))) : place; }

 private:
  bool shuffle_;
  KeyedPermutation permutation_;
};

// The samples of the batch that begins at place `first` of the epoch.
template <class Length>
std::vector<int64_t> batch_at(const SamplerSettings& settings, const Order& order, int64_t first, int64_t samples, const Length& length) {
  std::vector<int64_t> batch;
  int64_t rows = 0;
  for (int64_t place = first; place < samples; ++place) {
    const int64_t index = order(place);
    if (settings.batch_tokens > 0) {
      rows += length(index);
      if (!batch.empty() && rows > settings.batch_tokens) break;
    } else if (static_cast<int64_t>(batch.size()) == settings.batch_size) {
      break;
    }
    batch.push_back(index);
  }
  return batch;
}

}  // namespace

Sampler::Sampler(SamplerSettings settings, int64_t samples, std::function<int32_t(int64_t)> length)
    : settings_(settings), samples_(samples), length_(std::move(length)) {
  require(samples >= 1, "a sampler over {} samples", samples);
  require(settings.batch_tokens > 0 || settings.batch_size >= 1, "a batch size of {}", settings.batch_size);
  require(settings.batch_tokens <= 0 || length_ != nullptr, "batches by tokens need the lengths of the samples");
}

std::vector<int64_t> Sampler::next() {
  std::vector<int64_t> batch = batch_at(settings_, Order(settings_, position_.epoch, samples_), position_.cursor, samples_, length_);
  position_.cursor += static_cast<int64_t>(batch.size());
  if (position_.cursor == samples_) position_ = {position_.epoch + 1, 0};
  return batch;
}

void Sampler::seek(SamplerPosition position) {
  require(position.epoch >= 0 && position.cursor >= 0 && position.cursor < samples_, "position {} of epoch {} in {} samples",
          position.cursor, position.epoch, samples_);
  position_ = position;
}

int64_t Sampler::batches_per_epoch(int64_t epoch) const {
  if (settings_.batch_tokens <= 0) return (samples_ + settings_.batch_size - 1) / settings_.batch_size;
  const Order order(settings_, epoch, samples_);
  int64_t batches = 0;
  for (int64_t place = 0; place < samples_; ++batches)
    place += static_cast<int64_t>(batch_at(settings_, order, place, samples_, length_).size());
  return batches;
}

}  // namespace tapeformer::data
