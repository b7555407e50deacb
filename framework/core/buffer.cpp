// SPDX-License-Identifier: Apache-2.0
#include "framework/core/buffer.h"

#include <sys/mman.h>

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
constexpr size_t huge_page = 1 << 21;  // asked for where they fit: a step passes over its arrays in strides, and small pages cost 2 % of it
constexpr uint64_t always_kept = uint64_t{16} << 20;

// Sizes are rounded up to eighths of a power of two: at most 12.5 % is wasted and few classes exist.
size_t size_class(size_t bytes) {
  bytes = std::max<size_t>(bytes, alignment);
  const size_t step = std::max<size_t>(alignment, std::bit_floor(bytes) / 8);
  return (bytes + step - 1) / step * step;
}

// A cached block may serve a request that is up to a third smaller: batches of other lengths then find what those before them left.
constexpr size_t largest_for(size_t size) { return size + size / 2; }

class CachingAllocator {
 public:
  struct Block {
    std::byte* memory;
    size_t size;
  };

  // Of at least `size` bytes; null memory when the system has none left.
  Block take(size_t size) {
    std::lock_guard lock(mutex_);
    ++statistics_.allocations;
    statistics_.bytes_requested += size;
    Block block = take_cached(size);
    if (!block.memory) {
      make_room(size);
      block = take_new(size);
    }
    if (!block.memory) {  // what is kept for later may be what is missing now
      free_all();
      block = take_new(size);
    }
    if (!block.memory) return block;
    statistics_.bytes_in_use += size;
    statistics_.peak_bytes = std::max(statistics_.peak_bytes, statistics_.bytes_in_use);
    most_in_use_ = std::max(most_in_use_, statistics_.bytes_in_use);
    return block;
  }
  // `size` is what take() was asked for.
  void give_back(Block block, size_t size) noexcept {
    std::lock_guard lock(mutex_);
    statistics_.bytes_in_use -= size;
    Class& of_size = free_[block.size];
    of_size.blocks.push_back(block.memory);
    of_size.last_use = statistics_.allocations;
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
    free_all();
  }

 private:
  struct Class {
    std::vector<std::byte*> blocks;
    uint64_t last_use = 0;  // number of the allocation before which a block came back
  };

  Block take_cached(size_t size) {
    for (auto at = free_.lower_bound(size); at != free_.end() && at->first <= largest_for(size); ++at)
      if (auto& blocks = at->second.blocks; !blocks.empty()) {
        const Block block{blocks.back(), at->first};
        blocks.pop_back();
        return block;
      }
    return {nullptr, 0};
  }
  Block take_new(size_t size) {
    const size_t align = size >= huge_page ? huge_page : size >= page_aligned_from ? 4096 : alignment;
    void* memory = nullptr;
    if (posix_memalign(&memory, align, size) != 0) memory = nullptr;
    if (memory && size >= huge_page) madvise(memory, size / huge_page * huge_page, MADV_HUGEPAGE);
    if (memory) statistics_.bytes_held += size;
    return {static_cast<std::byte*>(memory), size};
  }
  void free_all() {
    for (auto& [size, of_size] : free_)
      while (!of_size.blocks.empty()) free_last(size, of_size);
  }
  // Gives cached blocks back, those first whose size has waited longest, while much more would be held than was ever in use.
  void make_room(size_t bytes) {
    while (statistics_.bytes_held + bytes > 2 * std::max(most_in_use_, statistics_.bytes_in_use + bytes) + always_kept) {
      auto oldest = free_.end();
      for (auto at = free_.begin(); at != free_.end(); ++at)
        if (!at->second.blocks.empty() && (oldest == free_.end() || at->second.last_use < oldest->second.last_use)) oldest = at;
      if (oldest == free_.end()) return;
      free_last(oldest->first, oldest->second);
    }
  }
  void free_last(size_t size, Class& of_size) {
    std::free(of_size.blocks.back());
    of_size.blocks.pop_back();
    statistics_.bytes_held -= size;
  }

  std::mutex mutex_;
  std::map<size_t, Class> free_;
  AllocatorStatistics statistics_;
  uint64_t most_in_use_ = 0;
};

// Never destroyed: tensors of static duration may outlive any static object.
CachingAllocator& allocator() {
  static CachingAllocator* instance = new CachingAllocator;
  return *instance;
}

}  // namespace

Storage allocate(size_t bytes) {
  const size_t size = size_class(bytes);
  const CachingAllocator::Block block = size < bytes ? CachingAllocator::Block{nullptr, 0} : allocator().take(size);
  if (!block.memory) fail(ExitCode::resource, "out of memory: {} bytes asked for; use a smaller batch or shorter sequences", bytes);
  return Storage(block.memory, [size, whole = block.size](std::byte* b) { allocator().give_back({b, whole}, size); });
}

AllocatorStatistics allocator_statistics() { return allocator().statistics(); }
void reset_peak_bytes() { allocator().reset_peak(); }
void release_cached() { allocator().release(); }

}  // namespace tapeformer
