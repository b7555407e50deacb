// SPDX-License-Identifier: Apache-2.0
#include "framework/core/parallel.h"

#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "framework/core/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tapeformer {
namespace {

thread_local bool inside_task = false;

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

// How often a waiting thread looks before it sleeps: about 50 microseconds, longer than the gap between two kernels of a step.
constexpr int spins = 2000;

}  // namespace

struct ThreadPool::State {
  // A run is open while `task` is set; a worker joins it under the mutex, and run() closes it before it waits for `busy` to reach 0, so a
  // late worker can never take a task of another run.
  std::atomic<uint64_t> ticket{0};
  std::atomic<uint32_t> epoch{0};
  std::atomic<int64_t> tasks{0};
  std::atomic<int> busy{0};  // workers inside the current run
  const TaskRef* task = nullptr;
  std::mutex mutex;
  std::condition_variable wake, idle;
  std::atomic<bool> stop{false};
  std::exception_ptr error;
  std::mutex error_mutex;
  std::vector<std::atomic<bool>> worked;
  std::vector<std::thread> threads;
  bool may_spin;

  explicit State(int n) : worked(static_cast<size_t>(n)), may_spin(n <= static_cast<int>(std::thread::hardware_concurrency())) {}

  void drain(int worker, const TaskRef& f, int64_t count) {
    inside_task = true;
    for (;;) {
      const uint64_t index = ticket.fetch_add(1, std::memory_order_relaxed);
      if (static_cast<int64_t>(index) >= count) break;
      worked[static_cast<size_t>(worker)].store(true, std::memory_order_relaxed);
      try {
        f(static_cast<int64_t>(index));
      } catch (...) {
        std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
        ticket.store(static_cast<uint64_t>(count), std::memory_order_relaxed);  // the rest is not begun
      }
    }
    inside_task = false;
  }
};

ThreadPool::ThreadPool(int threads) : threads_(threads) {
  require(threads >= 1, "a pool of {} threads", threads);
  state_ = std::make_unique<State>(threads);
  try {
    for (int i = 1; i < threads; ++i) state_->threads.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& e) {
    const size_t made = state_->threads.size() + 1;
    join();
    fail(ExitCode::resource, "only {} of {} threads could be made ({}); ask for fewer, or raise the limits on memory and processes", made,
         threads, e.what());
  }
}

ThreadPool::~ThreadPool() { join(); }

void ThreadPool::join() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->wake.notify_all();
  for (auto& t : state_->threads) t.join();
}

void ThreadPool::work(int worker) {
  State& s = *state_;
  uint32_t seen = 0;
  for (;;) {
    for (int i = 0; s.may_spin && i < spins && s.epoch.load(std::memory_order_acquire) == seen && !s.stop.load(std::memory_order_relaxed);
         ++i)
      relax();
    const TaskRef* task;
    int64_t count;
    {
      std::unique_lock lock(s.mutex);
      s.wake.wait(lock, [&] { return s.stop.load() || s.epoch.load() != seen; });
      if (s.stop) return;
      seen = s.epoch.load();
      task = s.task;
      count = s.tasks.load();
      if (!task) continue;  // that run is over
      s.busy.fetch_add(1);
    }
    s.drain(worker, *task, count);
    if (s.busy.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      std::lock_guard lock(s.mutex);
      s.idle.notify_all();
    }
  }
}

void ThreadPool::run(int64_t tasks, TaskRef task) {
  if (tasks <= 0) return;
  if (threads_ == 1 || tasks == 1 || inside_task) {
    const bool outer = !inside_task;
    if (outer) state_->worked[0].store(true, std::memory_order_relaxed);
    inside_task = true;
    struct Reset {
      bool outer;
      ~Reset() {
        if (outer) inside_task = false;
      }
    } reset{outer};
    for (int64_t i = 0; i < tasks; ++i) task(i);
    return;
  }
  State& s = *state_;
  {
    std::lock_guard lock(s.mutex);
    s.task = &task;
    s.tasks = tasks;
    s.ticket.store(0, std::memory_order_relaxed);
    s.epoch.fetch_add(1, std::memory_order_release);
  }
  s.wake.notify_all();
  s.drain(0, task, tasks);
  {
    std::unique_lock lock(s.mutex);
    s.task = nullptr;  // a worker that wakes up from now on finds nothing to do
    for (int i = 0; s.may_spin && i < spins && s.busy.load(std::memory_order_acquire) > 0; ++i) {
      lock.unlock();
      relax();
      lock.lock();
    }
    s.idle.wait(lock, [&] { return s.busy.load(std::memory_order_acquire) == 0; });
  }
  if (s.error) std::rethrow_exception(std::exchange(s.error, nullptr));
}

int ThreadPool::threads_that_worked() const {
  int n = 0;
  for (const auto& w : state_->worked) n += w.load(std::memory_order_relaxed) ? 1 : 0;
  return n;
}

float* thread_scratch(size_t floats) {
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  thread_local std::unique_ptr<float, Free> memory;
  thread_local size_t size = 0;
  if (floats > size) {
    const size_t bytes = (floats * sizeof(float) + 4095) / 4096 * 4096;
    memory.reset(static_cast<float*>(std::aligned_alloc(4096, bytes)));
    if (!memory) {
      size = 0;
      fail(ExitCode::resource, "out of memory: {} bytes of scratch for one thread", bytes);
    }
    size = floats;
  }
  return memory.get();
}

}  // namespace tapeformer
