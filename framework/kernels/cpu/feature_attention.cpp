// SPDX-License-Identifier: Apache-2.0
// Linear attention on feature maps on the cpu device: the chunks' states are merged in their order, and each chunk of queries reads the
// sum.
#include "framework/kernels/feature_attention.h"

#include <algorithm>
#include <cmath>

#include "framework/core/parallel.h"
#include "framework/kernels/cpu/feature_run.h"

namespace tapeformer::kernels {
namespace {

// The arrays of one call that belong to a sequence and head.
struct Run : cpu::FeatureRun {
  using FeatureRun::FeatureRun;

  size_t scratch() const { return simd::feature_scratch(description()); }
  int64_t state_floats() const { return int64_t{call_.features} * (call_.head_dim + 1); }
  float* key_shift(int64_t task) const { return call_.key_shift + pair_index(task) * call_.features; }
  simd::FeatureChunk queries(int64_t task) const {
    simd::FeatureChunk out = chunk(task, false);
    out.shift = call_.query_shift + place(task);
    return out;
  }
  simd::FeatureChunk keys(int64_t task) const {
    simd::FeatureChunk out = chunk(task, true);
    out.shift = key_shift(task);
    return out;
  }

  template <class F>
  void for_parts(int64_t task, const F& f) const {
    for (int n = 0; n < chunk_of(task).count; ++n) f(part(sibling(task, n)));
  }
  // The sum of a sequence's and head's parts, in their order, laid out as the state. Calls factor(part, feature) for what a row of a part
  // is multiplied by.
  template <class Factor>
  void add_parts(int64_t task, float* state, const Factor& factor) const {
    std::fill_n(state, state_floats(), 0.f);
    const int m = call_.features, dims = call_.head_dim;
    for_parts(task, [&](const float* part) {
      for (int r = 0; r < m; ++r) {
        float* row = state + int64_t{r} * (dims + 1);
        const float by = factor(part, r);
        for (int first = 0; first < dims; first += panel_columns()) {
          const float* from = row_of(part, r, first);
          for (int e = first; e < std::min(dims, first + panel_columns()); ++e) row[e] += by * from[e - first];
        }
        row[dims] += by * part[layout().z + static_cast<size_t>(r)];
      }
    });
  }

  // From the parts of feature_state to the state and the keys' shifts.
  void merge_states(int64_t task, float* state) const {
    const int m = call_.features, dims = call_.head_dim;
    const bool softmax = call_.map == FeatureMap::softmax;
    const bool exponential = softmax || call_.map == FeatureMap::positive || call_.map == FeatureMap::hyperbolic;
    if (!exponential) {
      add_parts(task, state, [](const float*, int) { return 1.f; });
    } else {
      std::vector<float> most(static_cast<size_t>(m), -3.0e38f);
      for_parts(task, [&](const float* part) {
        for (size_t r = 0; r < most.size(); ++r) most[r] = std::max(most[r], part[layout().shift + r]);
      });
      add_parts(task, state, [&](const float* part, int r) {
        const float below = part[layout().shift + static_cast<size_t>(r)] - most[static_cast<size_t>(r)];
        return below == 0 ? 1.f : std::exp2(below);
      });
      for (int r = 0; r < m; ++r) {
        float* row = state + int64_t{r} * (dims + 1);
        const float sum = row[dims];
        // The columns' softmax: divided by its sum, unless shifts are given that have it already.
        const bool divide = softmax && !call_.shifts_given;
        if (!call_.shifts_given) key_shift(task)[r] = (most[static_cast<size_t>(r)] + (softmax ? std::log2(sum) : 0)) * cpu::nats_per_bit;
        for (int e = 0; divide && e <= dims; ++e) row[e] /= sum;
      }
    }
    const float offset = description().offset;
    if (offset == 0) return;
    // The offset of every feature of every key.
    std::vector<float> values(static_cast<size_t>(dims));
    for_parts(task, [&](const float* part) {
      for (size_t e = 0; e < values.size(); ++e) values[e] += part[layout().values + e];
    });
    const auto rows = static_cast<float>(call_.packing->length(chunk_of(task).sequence));
    for (int r = 0; r < m; ++r) {
      float* row = state + int64_t{r} * (dims + 1);
      for (int e = 0; e < dims; ++e) row[e] += offset * values[static_cast<size_t>(e)];
      row[dims] += offset * rows;
    }
  }
};

}  // namespace

template <>
void FeatureAttentionForward<float>::cpu(const Execution& on, const FeatureAttentionCall<float>& call, View<float> o, float* state,
                                         float* denominator) {
  Run run(on, call);
  for (int b = 0; b < call.packing->sequences(); ++b)
    if (call.packing->length(b) == 0) {
      std::fill_n(state + int64_t{b} * call.heads * run.state_floats(), call.heads * run.state_floats(), 0.f);
      if (call.key_shift && !call.shifts_given)
        std::fill_n(call.key_shift + int64_t{b} * call.heads * call.features, call.heads * call.features, 0.f);
    }
  on.threads->run(run.tasks(), [&](int64_t task) {
    simd::feature_state(run.head(task), run.keys(task), run.part(task), thread_scratch(run.scratch()));
    if (run.finish(task)) run.merge_states(task, state + run.pair_index(task) * run.state_floats());
  });
  on.threads->run(run.tasks(), [&](int64_t task) {
    simd::feature_output(run.head(task), run.queries(task), state + run.pair_index(task) * run.state_floats(),
                         {run.at(o, task, call.head_dim), o.stride}, denominator + run.place(task), thread_scratch(run.scratch()));
  });
}

template <>
void FeatureAttentionBackward<float>::cpu(const Execution& on, const FeatureAttentionCall<float>& call, View<const float> o,
                                          const float* state, const float* denominator, View<const float> d_o, View<float> dq,
                                          View<float> dk, View<float> dv, float* d_matrix) {
  Run run(on, call);
  const Storage gradients = allocate(static_cast<size_t>(call.packing->sequences() * call.heads * run.state_floats() + 1) * sizeof(float));
  auto* const d_states = reinterpret_cast<float*>(gradients.get());
  if (d_matrix) run.keep_matrix_parts();
  on.threads->run(run.tasks(), [&](int64_t task) {
    const float* s = state + run.pair_index(task) * run.state_floats();
    simd::feature_backward_queries(run.head(task), run.queries(task), s, {run.at(o, task, call.head_dim), o.stride},
                                   denominator + run.place(task), {run.at(d_o, task, call.head_dim), d_o.stride},
                                   {run.at(dq, task, call.input_dim), dq.stride}, run.part(task), run.matrix_part(task, false),
                                   thread_scratch(run.scratch()));
    if (!run.finish(task)) return;
    float* const ds = d_states + run.pair_index(task) * run.state_floats();
    run.add_parts(task, ds, [](const float*, int) { return 1.f; });
    // The columns' softmax takes <db, b> over the sequence from db: that sum is <dS, S> of the column, as S = sum b_j v_j'.
    const int width = call.head_dim + 1;
    for (int r = 0; call.map == FeatureMap::softmax && r < call.features; ++r) {
      double sum = 0;
      for (int e = 0; e < width; ++e) sum += static_cast<double>(s[r * width + e]) * static_cast<double>(ds[r * width + e]);
      ds[r * width + call.head_dim] -= static_cast<float>(sum);
    }
  });
  on.threads->run(run.tasks(), [&](int64_t task) {
    simd::feature_backward_keys(run.head(task), run.keys(task), d_states + run.pair_index(task) * run.state_floats(),
                                {run.at(dk, task, call.input_dim), dk.stride}, {run.at(dv, task, call.head_dim), dv.stride},
                                run.matrix_part(task, true), thread_scratch(run.scratch()));
  });
  run.add_matrix_parts(d_matrix);
}

}  // namespace tapeformer::kernels
