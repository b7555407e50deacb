// SPDX-License-Identifier: Apache-2.0
// The thread pool: every task once, several threads at work, exceptions, nested calls.
#include "framework/core/parallel.h"

#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

using namespace tapeformer;

TEST_CASE("every task runs once whatever the number of threads", "[parallel]") {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 200; ++round) {
      std::vector<std::atomic<int>> done(97);
      pool.run(97, [&](int64_t i) { ++done[static_cast<size_t>(i)]; });
      for (const auto& d : done) REQUIRE(d == 1);
    }
  }
}

TEST_CASE("several threads take part", "[parallel]") {
  ThreadPool pool(3);
  for (int round = 0; round < 50 && pool.threads_that_worked() < 3; ++round)
    pool.run(30, [](int64_t) { std::this_thread::sleep_for(std::chrono::microseconds(200)); });
  CHECK(pool.threads_that_worked() == 3);
}

TEST_CASE("an exception in a task reaches the caller and the pool stays usable", "[parallel]") {
  ThreadPool pool(2);
  CHECK_THROWS_AS(pool.run(50, [](int64_t i) { if (i == 7) throw std::runtime_error("seven"); }), std::runtime_error);
  std::atomic<int> n{0};
  pool.run(10, [&](int64_t) { ++n; });
  CHECK(n == 10);
}

TEST_CASE("a call from inside a task runs on that thread", "[parallel]") {
  ThreadPool pool(2);
  std::atomic<int> n{0};
  pool.run(4, [&](int64_t) { pool.run(5, [&](int64_t) { ++n; }); });
  CHECK(n == 20);
}
