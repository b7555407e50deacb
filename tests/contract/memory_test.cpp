// SPDX-License-Identifier: Apache-2.0
// Rows R-5 and E13 of the fault tables: training and evaluation hold as much memory after 300 further updates as after the first ones, to
// the byte. Counted are the live bytes of every `new` of this program and the buffers of tensors.
#include <atomic>
#include <cstdlib>
#include <new>

#include "framework/core/buffer.h"
#include "framework/core/parallel.h"
#include "framework/train/evaluator.h"
#include "framework/train/update.h"
#include "tests/support/catch.h"
#include "tests/support/model_fixture.h"

namespace {

std::atomic<int64_t> live_bytes{0};

// In front of each block stands its size.
void* take(size_t bytes, size_t alignment) {
  const size_t front = std::max(alignment, alignof(std::max_align_t));
  auto* block = static_cast<char*>(std::aligned_alloc(front, (front + bytes + front - 1) / front * front));
  if (block == nullptr) throw std::bad_alloc();
  *reinterpret_cast<size_t*>(block) = bytes;
  live_bytes += static_cast<int64_t>(bytes);
  return block + front;
}

void give_back(void* memory, size_t alignment) noexcept {
  if (memory == nullptr) return;
  char* block = static_cast<char*>(memory) - std::max(alignment, alignof(std::max_align_t));
  live_bytes -= static_cast<int64_t>(*reinterpret_cast<size_t*>(block));
  std::free(block);
}

}  // namespace

void* operator new(size_t bytes) { return take(bytes, 1); }
void* operator new(size_t bytes, std::align_val_t alignment) { return take(bytes, static_cast<size_t>(alignment)); }
void operator delete(void* memory) noexcept { give_back(memory, 1); }
void operator delete(void* memory, size_t) noexcept { give_back(memory, 1); }
void operator delete(void* memory, std::align_val_t alignment) noexcept { give_back(memory, static_cast<size_t>(alignment)); }
void operator delete(void* memory, size_t, std::align_val_t alignment) noexcept { give_back(memory, static_cast<size_t>(alignment)); }

using namespace tapeformer;
using namespace tapeformer::test;

namespace {

// Forty samples of 1 to 37 rows.
class Samples : public data::Dataset {
 public:
  Samples() : description_(token_description()) {}
  const data::Description& description() const override { return description_; }
  int64_t size(data::Part) const override { return 40; }
  int32_t length(data::Part, int64_t index) const override { return static_cast<int32_t>(1 + index * 11 % 37); }
  void read(data::Part part, int64_t index, data::Sample& out) const override {
    out = {};
    for (int32_t i = 0; i < length(part, index); ++i) out.tokens.push_back(static_cast<int32_t>((index * 5 + i * i) % 7));
    out.label = static_cast<int32_t>(index % 3);
    out.id = std::to_string(index + 1);
  }
  std::vector<std::string> report() const override { return {}; }

 private:
  data::Description description_;
};

struct Held {
  int64_t heap = live_bytes;
  uint64_t buffers = allocator_statistics().bytes_in_use, cached = allocator_statistics().bytes_held;
};

// Structures that follow from the data (clusters, rounds of hashing) are held from one update to the next and differ in size; what is left at
// each update would show: 300 updates of 4 bytes are more than the slack.
void check_no_growth(const Held& before, const Held& after) {
  CHECK(after.heap - before.heap <= 1024);
  CHECK(after.buffers == before.buffers);
  CHECK(after.cached <= before.cached + (uint64_t{1} << 18));
}

}  // namespace

TEST_CASE("R-5, E13: memory does not grow over updates and evaluations") {
  const auto variants = models::attention_variants();
  const size_t variant = GENERATE_COPY(range(size_t{0}, variants.size()));
  const std::string norm = variant % 2 == 0 ? "layer_norm" : "batch_norm";
  CAPTURE(variants[variant].name, norm);
  const Samples samples;
  const auto settings = model_settings({fmt::format("model.attention.type={}", variants[variant].name), "model.norm.type=" + norm});
  const auto model = models::make_model({.seed = 5, .dtype = Dtype::f32}, settings, samples.description());
  ThreadPool threads(2);
  const Execution on{Device::cpu, &threads};
  train::TrainSettings train_settings;
  train_settings.averaging.decay = 0.9;
  train_settings.micro_batch_size = 5;
  train_settings.on_nonfinite = train::OnNonfinite::skip;
  train::Updater updater(train_settings, *model, samples, on);
  int64_t step = 0;
  const auto train_for = [&](int64_t updates) {
    for (const int64_t last = step + updates; step < last;) {
      std::vector<int64_t> batch;
      for (int64_t i = 0; i < 8; ++i) batch.push_back((step * 8 + i) % 40);
      REQUIRE(updater.update(++step, 1000, batch).not_finite.empty());
    }
  };
  const auto evaluate_for = [&](int64_t passes) {
    for (int64_t i = 0; i < passes; ++i)
      REQUIRE(train::evaluate(*model, samples, data::Part::valid, {.on = on, .batch_size = 4})->batches == 10);
  };
  train_for(20);  // each batch four times: tables by length and scratch of threads are there
  evaluate_for(2);
  const Held before;
  train_for(300);
  const Held trained;
  check_no_growth(before, trained);
  evaluate_for(10);
  const Held evaluated;
  check_no_growth(before, evaluated);
  // The counting counts.
  const auto kept = std::make_unique<std::vector<char>>(2000);
  const Held with_more;
  CHECK(with_more.heap >= before.heap + 1025);
}
