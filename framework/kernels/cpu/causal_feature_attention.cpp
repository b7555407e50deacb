// SPDX-License-Identifier: Apache-2.0
// Causal attention on feature maps on the cpu device: each chunk of rows starts with what the chunks before it have added up, and in the
// backward of the keys with what those after it have; inside a chunk the sums go on row by row.
#include "framework/kernels/causal_feature_attention.h"

#include <algorithm>
#include <cmath>

#include "framework/core/parallel.h"
#include "framework/kernels/cpu/feature_run.h"
#include "framework/kernels/cpu/simd/causal_features.h"

namespace tapeformer::kernels {
namespace {

struct Run : cpu::FeatureRun {
  using FeatureRun::FeatureRun;

  int shifts() const { return shifts_per_key(call_.map, call_.features); }
  size_t scratch() const { return std::max(simd::causal_scratch(description()), simd::feature_scratch(description())); }
  int64_t width() const { return call_.head_dim + 1; }
  int64_t state_floats() const { return (call_.features + 1) * width(); }

  // Shifts of a key, counted from the chunk's first row, in nats; null where the map has none.
  float* key_shift(int64_t task, int32_t row) const { return shifts() == 0 ? nullptr : call_.key_shift + (place(task) + row) * shifts(); }
  simd::CausalChunk rows(int64_t task) const {
    simd::CausalChunk out{chunk(task, false), chunk(task, true), nullptr, {}, {}};
    out.q.shift = call_.query_shift + place(task);
    out.k.shift = key_shift(task, 0);
    return out;
  }

  // What a sum is multiplied by for each feature.
  using Factors = std::vector<float>;
  // to = by from + factor part; the last row of the state is added up without factors. `from` may be null, for 0, and may be `to`.
  void add_part(const float* from, const Factors& by, const float* part, const Factors& factor, float count, float* to) const {
    const int m = call_.features, dims = call_.head_dim;
    const auto add_row = [&](int r, float b, float f, const float* part_row, int first, int n) {
      const int64_t at = r * width() + first;
      for (int e = 0; e < n; ++e) to[at + e] = (from ? from[at + e] * b : 0.f) + f * part_row[e];
    };
    for (int r = 0; r < m; ++r) {
      const float b = by[static_cast<size_t>(r)], f = factor[static_cast<size_t>(r)];
      for (int first = 0; first < dims; first += panel_columns())
        add_row(r, b, f, row_of(part, r, first), first, std::min(panel_columns(), dims - first));
      add_row(r, b, f, part + layout().z + r, dims, 1);
    }
    add_row(m, 1, 1, part + layout().values, 0, dims);
    add_row(m, 1, 1, &count, dims, 1);
  }
  Factors ones() const { return Factors(static_cast<size_t>(call_.features), 1.f); }

  // From the parts of feature_state to what stands before each chunk of the task's sequence and head. Its scale is that of the key before
  // the chunk, in `scales` [tasks][shifts].
  void merge_before(int64_t task, float* state, float* scales) const {
    const int count = chunk_of(task).count, m = call_.features;
    std::fill_n(state + sibling(task, 0) * state_floats(), state_floats(), 0.f);
    Factors shift(static_cast<size_t>(m));  // in bits, of all before chunk n + 1
    for (int n = 0; n + 1 < count; ++n) {
      const int64_t at = sibling(task, n), next = sibling(task, n + 1);
      Factors by = ones(), factor = ones();
      for (int r = 0; shifts() > 0 && r < m; ++r) {
        const auto i = static_cast<size_t>(r);
        const float own = part(at)[layout().shift + i], old = n == 0 ? own : shift[i];
        float after = std::max(old, own);
        if (call_.shifts_given) after = key_shift(next, -1)[r % shifts()] * cpu::bits_per_nat;
        by[i] = std::exp2(old - after);
        factor[i] = std::exp2(own - after);
        shift[i] = after;
        scales[next * shifts() + r % shifts()] = after * cpu::nats_per_bit;
      }
      add_part(n > 0 ? state + at * state_floats() : nullptr, by, part(at), factor, static_cast<float>(chunk_of(at).rows),
               state + next * state_floats());
    }
  }

  // From the parts of causal_backward_queries to the gradient that comes from all after each chunk, scaled as the first key after it.
  void merge_after(int64_t task, float* d_state) const {
    const int count = chunk_of(task).count;
    std::fill_n(d_state + sibling(task, count - 1) * state_floats(), state_floats(), 0.f);
    for (int n = count - 2; n >= 0; --n) {
      const int64_t at = sibling(task, n), next = sibling(task, n + 1);
      const bool more = n + 2 < count;
      Factors by = ones();
      for (int r = 0; more && shifts() > 0 && r < call_.features; ++r)
        by[static_cast<size_t>(r)] = std::exp(key_shift(next, 0)[r % shifts()] - key_shift(sibling(task, n + 2), 0)[r % shifts()]);
      add_part(more ? d_state + next * state_floats() : nullptr, by, part(next), ones(), 0, d_state + at * state_floats());
    }
  }
};

}  // namespace

template <>
void CausalFeatureAttentionForward<float>::cpu(const Execution& on, const FeatureAttentionCall<float>& call, View<float> o, float* state,
                                               float* denominator) {
  Run run(on, call);
  std::vector<float> scales(static_cast<size_t>(run.tasks() * run.shifts()));
  on.threads->run(run.tasks(), [&](int64_t task) {
    simd::FeatureHead head = run.head(task);
    head.shifts_given = false;  // a part has a scale of its own
    // The last chunk adds to no state.
    if (run.chunk_of(task).number + 1 < run.chunk_of(task).count)
      simd::feature_state(head, run.chunk(task, true), run.part(task), thread_scratch(run.scratch()));
    if (run.finish(task)) run.merge_before(task, state, scales.data());
  });
  on.threads->run(run.tasks(), [&](int64_t task) {
    simd::CausalChunk rows = run.rows(task);
    if (run.shifts() > 0 && run.chunk_of(task).number > 0) rows.neighbour = scales.data() + task * run.shifts();
    simd::causal_output(run.head(task), rows, state + task * run.state_floats(), {run.at(o, task, call.head_dim), o.stride},
                        denominator + run.place(task), thread_scratch(run.scratch()));
  });
}

template <>
void CausalFeatureAttentionBackward<float>::cpu(const Execution& on, const FeatureAttentionCall<float>& call, View<const float> o,
                                                const float* state, const float* denominator, View<const float> d_o, View<float> dq,
                                                View<float> dk, View<float> dv, float* d_matrix) {
  Run run(on, call);
  const Storage gradients = allocate(static_cast<size_t>(run.tasks() * run.state_floats() + 1) * sizeof(float));
  auto* const d_states = reinterpret_cast<float*>(gradients.get());
  if (d_matrix) run.keep_matrix_parts();
  // Of the map softmax: what each query reads of the state, and what it adds to the gradient of z: [T, heads * features].
  const bool keeps = call.map == FeatureMap::softmax;
  const int64_t columns = int64_t{call.heads} * call.features, kept = keeps ? call.packing->rows() * columns : 0;
  const Storage readers = allocate(static_cast<size_t>(2 * kept + 1) * sizeof(float));
  const auto chunk_rows = [&](int64_t task) {
    simd::CausalChunk rows = run.rows(task);
    const auto part_of = [&](int64_t first) {
      const View<float> all{reinterpret_cast<float*>(readers.get()) + first, call.packing->rows(), columns, columns};
      return simd::Rows{run.at(all, task, call.features), columns};
    };
    if (keeps) rows.readers = part_of(0), rows.z_gradients = part_of(kept);
    return rows;
  };
  const auto outputs = [&](int64_t task) { return simd::ConstRows{run.at(o, task, call.head_dim), o.stride}; };
  const auto gradient = [&](int64_t task) { return simd::ConstRows{run.at(d_o, task, call.head_dim), d_o.stride}; };
  on.threads->run(run.tasks(), [&](int64_t task) {
    simd::CausalChunk rows = chunk_rows(task);
    if (run.chunk_of(task).number > 0) rows.neighbour = run.key_shift(task, -1);
    float* const part = run.chunk_of(task).number > 0 ? run.part(task) : nullptr;  // nothing stands before the first chunk
    simd::causal_backward_queries(run.head(task), rows, state + task * run.state_floats(), outputs(task), denominator + run.place(task),
                                  gradient(task), {run.at(dq, task, call.input_dim), dq.stride}, part, run.matrix_part(task, false),
                                  thread_scratch(run.scratch()));
    if (run.finish(task)) run.merge_after(task, d_states);
  });
  on.threads->run(run.tasks(), [&](int64_t task) {
    simd::CausalChunk rows = chunk_rows(task);
    const auto& c = run.chunk_of(task);
    if (c.number + 1 < c.count) rows.neighbour = run.key_shift(task, c.rows);
    simd::causal_backward_keys(run.head(task), rows, d_states + task * run.state_floats(), outputs(task), denominator + run.place(task),
                               gradient(task), {run.at(dk, task, call.input_dim), dk.stride}, {run.at(dv, task, call.head_dim), dv.stride},
                               run.matrix_part(task, true), thread_scratch(run.scratch()));
  });
  run.add_matrix_parts(d_matrix);
}

}  // namespace tapeformer::kernels
