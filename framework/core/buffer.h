// SPDX-License-Identifier: Apache-2.0
// Storage of tensors from a caching allocator: freed blocks are kept and handed out again for their size or one a little below, so that
// steps of one shape soon touch no fresh page, and steps of ever other shapes hold at most about twice what was ever in use at once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tapeformer {

struct AllocatorStatistics {
  uint64_t bytes_in_use = 0;     // by live buffers
  uint64_t peak_bytes = 0;       // the most bytes_in_use has been since the last reset
  uint64_t bytes_held = 0;       // in use and cached
  uint64_t bytes_requested = 0;  // by all allocations so far
  uint64_t allocations = 0;
};

// A block of host memory aligned to 64 bytes. The contents are not initialised.
using Storage = std::shared_ptr<std::byte>;

// Throws Error(resource) naming the size when the system has no memory left.
Storage allocate(size_t bytes);

AllocatorStatistics allocator_statistics();
void reset_peak_bytes();
// Gives every cached block back to the system.
void release_cached();

}  // namespace tapeformer
