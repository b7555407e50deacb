// SPDX-License-Identifier: Apache-2.0
#include "framework/io/content_hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>

namespace tapeformer::io {
namespace {

XXH3_state_t* state_of(void* state) { return static_cast<XXH3_state_t*>(state); }

}  // namespace

ContentHash::ContentHash() : state_(XXH3_createState(), [](void* state) { XXH3_freeState(state_of(state)); }) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state_of(state_.get()));
}

void ContentHash::add(std::string_view bytes) { XXH3_128bits_update(state_of(state_.get()), bytes.data(), bytes.size()); }

std::string ContentHash::text() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_of(state_.get()));
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace tapeformer::io
