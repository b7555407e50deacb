// SPDX-License-Identifier: Apache-2.0
// Mixed blocks on the cpu device: for each slot a small product of the normalised matrix with the rows that stand there in all blocks, which
// lie a block apart. Tasks are a head of a sequence and a run of slots.
#include "framework/kernels/sorted_blocks.h"

#include <algorithm>
#include <vector>

#include "framework/core/parallel.h"
#include "framework/kernels/cpu/simd/product.h"

namespace tapeformer::kernels {
namespace {

constexpr int32_t run_slots = 32;

// One head of one sequence. Matrices are [made, m], those of the slots that the last block lacks have a column less that counts.
struct Head {
  const SortedBlocksCall& call;
  int b, h;
  int made, m, full_slots;
  int64_t first, first_block, first_result, column;

  int blocks_with(int32_t t) const { return t < full_slots ? m : m - 1; }
  ptrdiff_t apart(ptrdiff_t stride) const { return stride * call.block; }  // rows of one slot in neighbouring blocks
  template <class T>
  T* slot(View<T> x, int64_t row, int32_t t) const {
    return x.row(row + t) + column;
  }
};

struct Task {
  int b, h;
  int32_t first_slot, end_slot;
};

std::vector<Task> cut(const SortedBlocksCall& call, int32_t slots) {
  std::vector<Task> tasks;
  for (int b = 0; b < call.sequences->sequences(); ++b)
    for (int h = 0; h < call.heads && call.sequences->length(b) > 0; ++h)
      for (int32_t t = 0; t < call.block; t += slots) tasks.push_back({b, h, t, std::min(call.block, t + slots)});
  return tasks;
}

std::vector<int64_t> result_offsets(const SortedBlocksCall& call) {
  std::vector<int64_t> out{0};
  for (int b = 0; b < call.sequences->sequences(); ++b) out.push_back(out.back() + call.result_rows(b));
  return out;
}

Head head_of(const SortedBlocksCall& call, const std::vector<int64_t>& results, int b, int h) {
  const auto at = static_cast<size_t>(b);
  return {call,
          b,
          h,
          call.made(b),
          call.blocks->length(b),
          call.full_slots(b),
          call.sequences->offsets()[at],
          call.blocks->offsets()[at],
          results[at],
          int64_t{h} * call.head_dim};
}

// p_uv / w of the first `count` blocks v, and w for each u.
struct Normalised {
  std::vector<float> p, weight;
  Normalised(const Head& head, View<const float> matrices, int count)
      : p(static_cast<size_t>(head.made) * static_cast<size_t>(head.m)), weight(static_cast<size_t>(head.made)) {
    for (int u = 0; u < head.made; ++u) {
      const float* row = matrices.row(head.first_block + u) + head.h * head.call.width;
      double sum = 0;
      for (int v = 0; v < count; ++v) sum += static_cast<double>(row[v]);
      weight[static_cast<size_t>(u)] = static_cast<float>(sum);
      for (int v = 0; v < count; ++v)
        p[static_cast<size_t>(u) * static_cast<size_t>(head.m) + static_cast<size_t>(v)] = sum != 0 ? static_cast<float>(static_cast<double>(row[v]) / sum) : 0.f;
    }
  }
};

// Of both kinds of slots.
struct Matrices {
  Normalised full, partial;
  Matrices(const Head& head, View<const float> p) : full(head, p, head.m), partial(head, p, head.m - 1) {}
  const Normalised& of(const Head& head, int32_t t) const { return t < head.full_slots ? full : partial; }
};

size_t scratch_of(const Head& head) { return simd::product_scratch(std::max(head.m, 1), std::max(head.m, head.call.head_dim)); }

// Own rows of a run of slots: those of all blocks, there and back.
template <class Body>
void for_own_rows(const Head& head, const Task& task, const Body& body) {
  const int64_t own = head.first_result + int64_t{head.made} * head.call.block;
  for (int v = 0; v < head.m; ++v)
    for (int32_t t = task.first_slot; t < task.end_slot && v < head.blocks_with(t); ++t) {
      const int64_t i = int64_t{v} * head.call.block + t;
      body(head.first + i, own + i);
    }
}

}  // namespace

template <>
void SortedBlocksForward<float>::cpu(const Execution& on, const SortedBlocksCall& call, View<const float> p, View<const float> x,
                                     View<float> out, View<float> weights) {
  for (int64_t r = 0; r < weights.rows; ++r) std::fill_n(weights.row(r), weights.columns, 0.f);
  const std::vector<int64_t> results = result_offsets(call);
  const std::vector<Task> tasks = cut(call, run_slots);
  on.threads->run(static_cast<int64_t>(tasks.size()), [&](int64_t i) {
    const Task& task = tasks[static_cast<size_t>(i)];
    const Head head = head_of(call, results, task.b, task.h);
    const Matrices matrices(head, p);
    if (task.first_slot == 0)
      for (int u = 0; u < head.made; ++u) {
        weights.row(head.first_block + u)[head.h] = matrices.full.weight[static_cast<size_t>(u)];
        weights.row(head.first_block + u)[call.heads + head.h] =
            (head.full_slots < call.block ? matrices.partial : matrices.full).weight[static_cast<size_t>(u)];
      }
    float* const scratch = thread_scratch(scratch_of(head));
    for (int32_t t = task.first_slot; t < task.end_slot; ++t) {
      simd::Product product;
      product.M = head.made;
      product.N = call.head_dim;
      product.K = head.blocks_with(t);
      product.a = {matrices.of(head, t).p.data(), head.m};
      product.b = {head.slot(x, head.first, product.K ? t : 0), head.apart(x.stride)};
      product.c = {head.slot(out, head.first_result, t), head.apart(out.stride)};
      simd::product(product, scratch);
    }
    if (call.own)
      for_own_rows(head, task, [&](int64_t from, int64_t to) {
        std::copy_n(x.row(from) + head.column, call.head_dim, out.row(to) + head.column);
      });
  });
}

namespace {

// dp of one head: A_uv = sum over the slots of <dout_u[t], x_v[t]> for both kinds of slots; then (A_uv - sum over v of p_uv A_uv / w) / w.
void matrix_gradient(const Head& head, const Matrices& matrices, View<const float> x, View<const float> dout, View<float> dp, float* scratch) {
  const SortedBlocksCall& call = head.call;
  const size_t size = static_cast<size_t>(head.made) * static_cast<size_t>(head.m);
  std::vector<float> sums[2] = {std::vector<float>(size), std::vector<float>(size)};
  for (int32_t t = 0; t < call.block; ++t) {
    simd::Product product;
    product.M = head.made;
    product.N = head.blocks_with(t);
    product.K = call.head_dim;
    if (product.N == 0) continue;
    product.transpose_b = true;
    product.a = {head.slot(dout, head.first_result, t), head.apart(dout.stride)};
    product.b = {head.slot(x, head.first, t), head.apart(x.stride)};
    product.c = {sums[t < head.full_slots ? 0 : 1].data(), head.m};
    product.add = true;
    simd::product(product, scratch);
  }
  for (int u = 0; u < head.made; ++u)
    for (const int kind : {0, 1}) {
      const Normalised& n = kind == 0 ? matrices.full : matrices.partial;
      const float w = n.weight[static_cast<size_t>(u)];
      if (w == 0) continue;
      const ptrdiff_t first = ptrdiff_t{u} * head.m;
      const float *a = sums[kind].data() + first, *weight = n.p.data() + first;
      double mean = 0;
      for (int v = 0; v < head.m - kind; ++v) mean += static_cast<double>(weight[v]) * static_cast<double>(a[v]);
      float* to = dp.row(head.first_block + u) + head.h * call.width;
      for (int v = 0; v < head.m - kind; ++v) to[v] += (a[v] - static_cast<float>(mean)) / w;
    }
}

}  // namespace

template <>
void SortedBlocksBackward<float>::cpu(const Execution& on, const SortedBlocksCall& call, View<const float> p, View<const float> x,
                                      View<const float> dout, View<float> dp, Write write, View<float> dx) {
  const std::vector<int64_t> results = result_offsets(call);
  if (dp.data) {
    if (write == Write::overwrite)
      for (int64_t r = 0; r < dp.rows; ++r) std::fill_n(dp.row(r), dp.columns, 0.f);
    const std::vector<Task> heads = cut(call, call.block);
    on.threads->run(static_cast<int64_t>(heads.size()), [&](int64_t i) {
      const Head head = head_of(call, results, heads[static_cast<size_t>(i)].b, heads[static_cast<size_t>(i)].h);
      matrix_gradient(head, Matrices(head, p), x, dout, dp, thread_scratch(scratch_of(head)));
    });
  }
  if (!dx.data) return;
  const std::vector<Task> tasks = cut(call, run_slots);
  on.threads->run(static_cast<int64_t>(tasks.size()), [&](int64_t i) {
    const Task& task = tasks[static_cast<size_t>(i)];
    const Head head = head_of(call, results, task.b, task.h);
    const Matrices matrices(head, p);
    float* const scratch = thread_scratch(scratch_of(head));
    for (int32_t t = task.first_slot; t < task.end_slot; ++t) {
      simd::Product product;
      product.M = head.blocks_with(t);
      product.N = call.head_dim;
      product.K = head.made;
      if (product.M == 0) continue;
      product.transpose_a = true;
      product.a = {matrices.of(head, t).p.data(), head.m};
      product.b = {head.slot(dout, head.first_result, t), head.apart(dout.stride)};
      product.c = {head.slot(dx, head.first, t), head.apart(dx.stride)};
      product.add = true;
      simd::product(product, scratch);
    }
    if (call.own)
      for_own_rows(head, task, [&](int64_t to, int64_t from) {
        const float* add = dout.row(from) + head.column;
        float* sum = dx.row(to) + head.column;
        for (int d = 0; d < call.head_dim; ++d) sum[d] += add[d];
      });
  });
}

}  // namespace tapeformer::kernels
