// SPDX-License-Identifier: Apache-2.0
// Linear attention on the cpu device. A sequence is cut into chunks of a fixed number of rows, whose states are added in their order; short
// chunks share a task. The cut depends on the sequence alone, so neither threads nor batch mates change a byte.
#include "framework/kernels/linear_attention.h"

#include <atomic>
#include <vector>

#include "framework/core/buffer.h"
#include "framework/core/parallel.h"
#include "framework/kernels/cpu/simd/linear_attention.h"

namespace tapeformer::kernels {
namespace {

constexpr int32_t chunk_rows = 512;

struct Chunk {
  int sequence, number, count;  // which of the sequence's chunks
  int32_t row, rows;            // in the batch
};

struct Chunks {
  std::vector<Chunk> chunks;
  std::vector<size_t> tasks{0};  // [tasks + 1] into chunks
  int64_t count() const { return static_cast<int64_t>(tasks.size()) - 1; }
};

Chunks cut(const Packing& packing) {
  Chunks out;
  int32_t rows = 0;
  for (int b = 0; b < packing.sequences(); ++b) {
    const int32_t length = packing.length(b), first = packing.offsets()[static_cast<size_t>(b)];
    const int count = (length + chunk_rows - 1) / chunk_rows;
    for (int n = 0; n < count; ++n) {
      const int32_t from = n * chunk_rows, own = length - from < chunk_rows ? length - from : chunk_rows;
      if (rows + own > chunk_rows) {
        out.tasks.push_back(out.chunks.size());
        rows = 0;
      }
      out.chunks.push_back({b, n, count, first + from, own});
      rows += own;
    }
  }
  if (out.chunks.size() > out.tasks.back()) out.tasks.push_back(out.chunks.size());
  return out;
}

// Calls body(chunk number) for all chunks of all tasks.
template <class F>
void run(const Execution& on, const Chunks& all, const F& body) {
  on.threads->run(all.count(), [&](int64_t task) {
    for (size_t i = all.tasks[static_cast<size_t>(task)]; i < all.tasks[static_cast<size_t>(task) + 1]; ++i) body(i);
  });
}

// Packed states of the chunks and, for each sequence, how many are done.
class Parts {
 public:
  Parts(const LinearAttentionCall<float>& call, const Chunks& all)
      : floats_(simd::linear_state_floats(call.heads, call.head_dim)),
        memory_(allocate((all.chunks.size() * floats_ + 1) * sizeof(float))),
        done_(static_cast<size_t>(call.packing->sequences())) {}
  size_t floats() const { return floats_; }
  float* part(size_t chunk) const { return reinterpret_cast<float*>(memory_.get()) + chunk * floats_; }
  // The part of the first chunk of the sequence of chunk i.
  float* first(const Chunk& c, size_t i) const { return part(i - static_cast<size_t>(c.number)); }
  // Called when a chunk's part is written. True for the last one of a sequence: then the first part is the sum of all, in their order.
  bool finish(const Chunk& c, size_t i) {
    if (done_[static_cast<size_t>(c.sequence)].fetch_add(1, std::memory_order_acq_rel) + 1 < c.count) return false;
    float* const sum = first(c, i);
    for (int n = 1; n < c.count; ++n) {
      const float* const add = sum + static_cast<size_t>(n) * floats_;
      for (size_t x = 0; x < floats_; ++x) sum[x] += add[x];
    }
    return true;
  }

 private:
  size_t floats_;
  Storage memory_;
  std::vector<std::atomic<int>> done_;
};

simd::LinearChunk described(const LinearAttentionCall<float>& call, const Chunk& c) {
  return {c.rows,
          call.heads,
          call.head_dim,
          {call.q.row(c.row), call.q.stride},
          {call.k.row(c.row), call.k.stride},
          {call.v.row(c.row), call.v.stride}};
}

// The state of the contract, [heads][head_dim][head_dim + 1] of each sequence.
size_t state_of(const LinearAttentionCall<float>& call, int sequence) {
  return static_cast<size_t>(sequence) * static_cast<size_t>(call.heads * call.head_dim) * static_cast<size_t>(call.head_dim + 1);
}
void unpack_state(const LinearAttentionCall<float>& call, const float* packed, float* state) {
  const auto dim = static_cast<size_t>(call.head_dim), width = static_cast<size_t>(simd::linear_width(call.head_dim));
  for (int h = 0; h < call.heads; ++h, packed += simd::linear_state_floats(1, call.head_dim))
    for (size_t r = 0; r < dim; ++r) {
      for (size_t c = 0; c < dim; ++c) *state++ = packed[r * width + c];
      *state++ = packed[dim * width + r];
    }
}

}  // namespace

template <>
void LinearAttentionForward<float>::cpu(const Execution& on, const LinearAttentionCall<float>& call, View<float> o, float* state,
                                        float* denominator) {
  const Chunks all = cut(*call.packing);
  const size_t scratch = simd::linear_scratch(call.heads, call.head_dim);
  Parts parts(call, all);
  for (int b = 0; b < call.packing->sequences(); ++b)
    if (call.packing->length(b) == 0)
      for (size_t i = state_of(call, b); i < state_of(call, b + 1); ++i) state[i] = 0;
  run(on, all, [&](size_t i) {
    const Chunk& c = all.chunks[i];
    simd::linear_state(described(call, c), parts.part(i), thread_scratch(scratch));
    if (parts.finish(c, i)) unpack_state(call, parts.first(c, i), state + state_of(call, c.sequence));
  });
  run(on, all, [&](size_t i) {
    const Chunk& c = all.chunks[i];
    simd::linear_output(described(call, c), state + state_of(call, c.sequence), static_cast<float>(call.epsilon), {o.row(c.row), o.stride},
                        denominator + c.row, call.packing->rows(), thread_scratch(scratch));
  });
}

template <>
void LinearAttentionBackward<float>::cpu(const Execution& on, const LinearAttentionCall<float>& call, View<const float> o,
                                         const float* state, const float* denominator, View<const float> d_o, View<float> dq,
                                         View<float> dk, View<float> dv) {
  const Chunks all = cut(*call.packing);
  const size_t scratch = simd::linear_scratch(call.heads, call.head_dim);
  Parts parts(call, all);
  run(on, all, [&](size_t i) {
    const Chunk& c = all.chunks[i];
    simd::linear_backward_queries(described(call, c), state + state_of(call, c.sequence), {o.row(c.row), o.stride}, denominator + c.row,
                                  call.packing->rows(), {d_o.row(c.row), d_o.stride}, {dq.row(c.row), dq.stride}, parts.part(i),
                                  thread_scratch(scratch));
    parts.finish(c, i);
  });
  run(on, all, [&](size_t i) {
    const Chunk& c = all.chunks[i];
    simd::linear_backward_keys(described(call, c), parts.first(c, i), {dk.row(c.row), dk.stride}, {dv.row(c.row), dv.stride},
                               thread_scratch(scratch));
  });
}

}  // namespace tapeformer::kernels
