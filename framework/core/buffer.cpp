// SPDX-License-Identifier: Apache-2.0
#include "framework/core/buffer.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "framework/core/error.h"

namespace tapeformer {
namespace {

constexpr size_t alignment = 64;
constexpr size_t page_aligned_from = 1 << 16;

// Sizes are rounded up to eighths of a power of two: at most 12.5 % is wasted and few classes exist.
size_t size_class(size_t bytes) {
  bytes = std::max<size_t>(bytes, alignment);
  const size_t step = std::max<size_t>(alignment, std::bit_floor(bytes) / 8);
  return (bytes + step - 1) / step * step;
}

class CachingAllocator {
 public:
  std::byte* take(size_t size) {
    std::lock_guard lock(mutex_);
    ++statistics_.allocations;
    statistics_.bytes_requested += size;
    statistics_.bytes_in_use += size;
    statistics_.peak_bytes = std::max(statistics_.peak_bytes, statistics_.bytes_in_use);
    if (auto& free = free_[size]; !free.empty()) {
      std::byte* block = free.back();
      free.pop_back();
      return block;
    }
    const size_t align = size >= page_aligned_from ? 4096 : alignment;
    void* block = std::aligned_alloc(align, (size + align - 1) / align * align);
    if (!block) {
      statistics_.bytes_in_use -= size;
      return nullptr;
    }
    statistics_.bytes_held += size;
    return static_cast<std::byte*>(block);
  }
  void give_back(std::byte* block, size_t size) noexcept {
    std::lock_guard lock(mutex_);
    statistics_.bytes_in_use -= size;
    free_[size].push_back(block);
  }
  AllocatorStatistics statistics() {
    std::lock_guard lock(mutex_);
    return statistics_;
  }
  void reset_peak() {
    std::lock_guard lock(mutex_);
    statistics_.peak_bytes = statistics_.bytes_in_use;
  }
  void release() {
    std::lock_guard lock(mutex_);
    for (auto& [size, blocks] : free_) {
      statistics_.bytes_held -= size * blocks.size();
      for (std::byte* b : blocks) std::free(b);
      blocks.clear();
    }
  }

 private:
  std::mutex mutex_;
  std::map<size_t, std::vector<std::byte*>> free_;
  AllocatorStatistics statistics_;
};

// Never destroyed: tensors of static duration may outlive any static object.
CachingAllocator& allocator() {
  static CachingAllocator* instance = new CachingAllocator;
  return *instance;
}

}  // namespace

Storage allocate(size_t bytes) {
  const size_t size = size_class(bytes);
  std::byte* block = size < bytes ? nullptr : allocator().take(size);
  if (!block) fail(ExitCode::resource, "out of memory: {} bytes asked for; use a smaller batch or shorter sequences", bytes);
  return Storage(block, [size](std::byte* b) { allocator().give_back(b, size); });
}

AllocatorStatistics allocator_statistics() { return allocator().statistics(); }
void reset_peak_bytes() { allocator().reset_peak(); }
void release_cached() { allocator().release(); }

}  // namespace tapeformer
