// SPDX-License-Identifier: Apache-2.0
// A pool of threads that take tasks from one list. What a task covers is fixed by the caller from shapes alone, so results do not
// depend on the number of threads.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>

namespace tapeformer {

// A reference to a callable: no allocation, valid while the callable lives.
class TaskRef {
 public:
  template <class F>
  TaskRef(const F& f) : object_(&f), call_([](const void* o, int64_t task) { (*static_cast<const F*>(o))(task); }) {}
  void operator()(int64_t task) const { call_(object_, task); }

 private:
  const void* object_;
  void (*call_)(const void*, int64_t);
};

class ThreadPool {
 public:
  // The caller of run() is one of the `threads` (>= 1). Error(resource) where the system does not give so many.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  // Calls task(0) ... task(tasks - 1), each once, handed out in that order: put the costliest first. Returns when all are done; the first
  // exception is thrown again. A call from inside a task runs its tasks on that thread.
  void run(int64_t tasks, TaskRef task);
  // How many different threads have done at least one task since the pool was made: a test of thread invariance counts them.
  int threads_that_worked() const;

 private:
  struct State;
  void work(int worker);
  void join();
  int threads_;
  std::unique_ptr<State> state_;
};

// Calls body(first, last) for fixed blocks of `block` indices that cover [0, count).
template <class F>
void parallel_blocks(ThreadPool& pool, int64_t count, int64_t block, const F& body) {
  pool.run((count + block - 1) / block, [&](int64_t task) { body(task * block, count < (task + 1) * block ? count : (task + 1) * block); });
}

// Memory of the calling thread for temporary arrays, aligned to 64 bytes; kept between calls and overwritten by the next one.
float* thread_scratch(size_t floats);

}  // namespace tapeformer
