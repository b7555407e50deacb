// SPDX-License-Identifier: Apache-2.0
#include "framework/data/sampler.h"

#include <algorithm>
#include <set>

#include "framework/core/error.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::data;

namespace {

std::vector<int64_t> epoch_of(Sampler& sampler) {
  std::vector<int64_t> all;
  const int64_t epoch = sampler.position().epoch;
  while (sampler.position().epoch == epoch) {
    const auto batch = sampler.next();
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

int32_t length_of(int64_t index) { return static_cast<int32_t>(1 + index % 7); }

}  // namespace

TEST_CASE("an epoch has every sample once, in another order each time") {
  for (const int64_t samples : {1, 2, 3, 9, 65})
    for (const int64_t batch : {1, 4, 8}) {
      Sampler sampler({3, true, batch, 0}, samples, nullptr);
      CHECK(sampler.batches_per_epoch(0) == (samples + batch - 1) / batch);
      const auto first = epoch_of(sampler), second = epoch_of(sampler);
      CHECK(std::set<int64_t>(first.begin(), first.end()).size() == static_cast<size_t>(samples));
      CHECK(first.size() == static_cast<size_t>(samples));
      if (samples == 65) CHECK(first != second);
    }
}

TEST_CASE("without shuffling the order is the file's") {
  Sampler sampler({3, false, 2, 0}, 5, nullptr);
  CHECK(sampler.next() == std::vector<int64_t>{0, 1});
  CHECK(sampler.next() == std::vector<int64_t>{2, 3});
  CHECK(sampler.next() == std::vector<int64_t>{4});
  CHECK(sampler.position().epoch == 1);
  CHECK(sampler.position().cursor == 0);
}

TEST_CASE("a seed fixes the order, another seed changes it") {
  Sampler a({3, true, 65, 0}, 65, nullptr), b({3, true, 65, 0}, 65, nullptr), c({4, true, 65, 0}, 65, nullptr);
  const auto order = a.next();
  CHECK(order == b.next());
  CHECK(order != c.next());
}

TEST_CASE("batches by tokens are as full as the next sample allows") {
  Sampler sampler({1, true, 0, 12}, 50, length_of);
  const int64_t batches = sampler.batches_per_epoch(0);
  int64_t seen = 0, count = 0;
  std::vector<int64_t> before;
  while (sampler.position().epoch == 0) {
    const auto batch = sampler.next();
    int64_t rows = 0;
    for (const int64_t i : batch) rows += length_of(i);
    CHECK(rows <= 12);
    if (!before.empty()) {
      int64_t with_next = length_of(batch[0]);
      for (const int64_t i : before) with_next += length_of(i);
      CHECK(with_next > 12);
    }
    before = batch;
    seen += static_cast<int64_t>(batch.size());
    ++count;
  }
  CHECK(seen == 50);
  CHECK(count == batches);
  Sampler tight({1, true, 0, 3}, 50, length_of);
  for (int i = 0; i < 20; ++i) CHECK_FALSE(tight.next().empty());
}

TEST_CASE("a position is all there is to resume from") {
  for (const int64_t tokens : {0, 12}) {
    Sampler straight({9, true, 4, tokens}, 23, length_of);
    for (int step = 0; step < 20; ++step) {
      Sampler resumed({9, true, 4, tokens}, 23, length_of);
      resumed.seek(straight.position());
      CHECK(resumed.next() == straight.next());
      CHECK(resumed.position().cursor == straight.position().cursor);
    }
  }
}

TEST_CASE("misuse of the sampler is an error") {
  CHECK_THROWS_AS(Sampler({}, 0, nullptr), Error);
  CHECK_THROWS_AS(Sampler({0, true, 0, 0}, 5, nullptr), Error);
  CHECK_THROWS_AS(Sampler({0, true, 0, 5}, 5, nullptr), Error);
  Sampler sampler({}, 5, nullptr);
  CHECK_THROWS_AS(sampler.seek({0, 5}), Error);
  CHECK_THROWS_AS(sampler.seek({-1, 0}), Error);
}
