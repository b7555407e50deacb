// SPDX-License-Identifier: Apache-2.0
// Linear attention on feature maps on the cpu device. A task is one head on a chunk of rows of one sequence; the chunks' states are merged
// in their order. The cut depends on the sequence alone, so neither threads nor batch mates change a byte.
#include "framework/kernels/feature_attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numbers>
#include <vector>

#include "framework/core/buffer.h"
#include "framework/core/parallel.h"
#include "framework/kernels/cpu/blocks.h"
#include "framework/kernels/cpu/simd/feature_attention.h"
#include "framework/kernels/cpu/simd/panels.h"

namespace tapeformer::kernels {
namespace {

constexpr simd::Feature kind(FeatureMap m) { return static_cast<simd::Feature>(m); }
constexpr simd::Denominate kind(Denominator d) { return static_cast<simd::Denominate>(d); }
static_assert(kind(FeatureMap::given) == simd::Feature::given && kind(FeatureMap::positive) == simd::Feature::positive &&
              kind(FeatureMap::hyperbolic) == simd::Feature::hyperbolic && kind(FeatureMap::relu) == simd::Feature::relu &&
              kind(FeatureMap::trigonometric) == simd::Feature::trigonometric && kind(FeatureMap::cosine) == simd::Feature::cosine &&
              kind(FeatureMap::softmax) == simd::Feature::softmax && kind(Denominator::add) == simd::Denominate::add &&
              kind(Denominator::clamp) == simd::Denominate::clamp && kind(Denominator::none) == simd::Denominate::none);

constexpr int32_t chunk_rows = 10 * simd::feature_tile;
constexpr float bits_per_nat = std::numbers::log2e_v<float>, nats_per_bit = std::numbers::ln2_v<float>;

struct Chunk {
  int sequence, number, count;  // which of the sequence's chunks
  int32_t row, rows;            // in the batch
};

// One call: its chunks, the maps' numbers, the packed matrices, and where the arrays of a (chunk, head) lie.
class Run {
 public:
  Run(const Execution& on, const FeatureAttentionCall<float>& call)
      : on_(on),
        call_(call),
        columns_(simd::panel_columns()),
        part_(call.features, call.head_dim, columns_),
        done_(static_cast<size_t>(call.packing->sequences() * call.heads)) {
    for (int b = 0; b < call.packing->sequences(); ++b) {
      const int32_t length = call.packing->length(b), first = call.packing->offsets()[static_cast<size_t>(b)];
      const int count = (length + chunk_rows - 1) / chunk_rows;
      for (int n = 0; n < count; ++n)
        chunks_.push_back({b, n, count, first + n * chunk_rows, std::min(chunk_rows, length - n * chunk_rows)});
    }
    parts_ = allocate((static_cast<size_t>(tasks()) * part_.size + 1) * sizeof(float));
    describe();
    pack_matrices();
  }

  int64_t tasks() const { return static_cast<int64_t>(chunks_.size()) * call_.heads; }
  size_t scratch() const { return simd::feature_scratch(head_); }
  int head_of(int64_t task) const { return static_cast<int>(task % call_.heads); }
  const Chunk& chunk_of(int64_t task) const { return chunks_[static_cast<size_t>(task / call_.heads)]; }
  int64_t state_index(int64_t task) const { return int64_t{chunk_of(task).sequence} * call_.heads + head_of(task); }
  int64_t state_floats() const { return int64_t{call_.features} * (call_.head_dim + 1); }
  int64_t place(int64_t task) const { return int64_t{head_of(task)} * call_.packing->rows() + chunk_of(task).row; }  // in [heads][T]
  float* part(int64_t task) const { return reinterpret_cast<float*>(parts_.get()) + static_cast<size_t>(task) * part_.size; }

  simd::FeatureHead head(int64_t task) const {
    simd::FeatureHead out = head_;
    const auto h = static_cast<size_t>(head_of(task));
    if (head_.matrix_rows > 0) {
      out.panels = operands_[2 * h].data;
      out.back_panels = operands_[2 * h + 1].data;
    }
    return out;
  }
  simd::FeatureChunk chunk(int64_t task, bool keys) const {
    const Chunk& c = chunk_of(task);
    simd::FeatureChunk out;
    out.rows = c.rows;
    out.place = c.number * chunk_rows;
    if (call_.lengths) out.angle = static_cast<float>(std::numbers::pi / (2 * call_.lengths[c.sequence]));
    out.x = {at(keys ? call_.k : call_.q, task, call_.input_dim), keys ? call_.k.stride : call_.q.stride};
    out.v = {at(call_.v, task, call_.head_dim), call_.v.stride};
    out.shift = keys ? key_shift(task) : call_.query_shift + place(task);
    return out;
  }
  template <class T>
  T* at(View<T> x, int64_t task, int columns) const {
    return x.row(chunk_of(task).row) + int64_t{head_of(task)} * columns;
  }
  float* key_shift(int64_t task) const { return call_.key_shift + state_index(task) * call_.features; }

  // Called when a task's part is written. True for the last one of its sequence and head.
  bool finish(int64_t task) {
    return done_[static_cast<size_t>(state_index(task))].fetch_add(1, std::memory_order_acq_rel) + 1 == chunk_of(task).count;
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
        for (int first = 0; first < dims; first += columns_) {
          const float* from = part + (static_cast<size_t>(first / columns_) * static_cast<size_t>(m) + static_cast<size_t>(r)) *
                                         static_cast<size_t>(columns_);
          for (int e = first; e < std::min(dims, first + columns_); ++e) row[e] += by * from[e - first];
        }
        row[dims] += by * part[part_.z + static_cast<size_t>(r)];
      }
    });
  }

  // From the parts of feature_state to the state and the keys' shifts.
  void merge_states(int64_t task, float* state) const {
    const int m = call_.features, dims = call_.head_dim;
    const bool softmax = call_.map == FeatureMap::softmax, exponential = softmax || random_exponential();
    if (!exponential) {
      add_parts(task, state, [](const float*, int) { return 1.f; });
    } else {
      std::vector<float> most(static_cast<size_t>(m), -3.0e38f);
      for_parts(task, [&](const float* part) {
        for (size_t r = 0; r < most.size(); ++r) most[r] = std::max(most[r], part[part_.shift + r]);
      });
      add_parts(task, state, [&](const float* part, int r) {
        const float below = part[part_.shift + static_cast<size_t>(r)] - most[static_cast<size_t>(r)];
        return below == 0 ? 1.f : std::exp2(below);
      });
      for (int r = 0; r < m; ++r) {
        float* row = state + int64_t{r} * (dims + 1);
        const float sum = row[dims];
        // The columns' softmax: divided by its sum, unless shifts are given that have it already.
        const bool divide = softmax && !call_.shifts_given;
        if (!call_.shifts_given) key_shift(task)[r] = (most[static_cast<size_t>(r)] + (softmax ? std::log2(sum) : 0)) * nats_per_bit;
        for (int e = 0; divide && e <= dims; ++e) row[e] /= sum;
      }
    }
    if (head_.offset == 0) return;
    // The offset of every feature of every key.
    std::vector<float> values(static_cast<size_t>(dims));
    for_parts(task, [&](const float* part) {
      for (size_t e = 0; e < values.size(); ++e) values[e] += part[part_.values + e];
    });
    const auto rows = static_cast<float>(call_.packing->length(chunk_of(task).sequence));
    for (int r = 0; r < m; ++r) {
      float* row = state + int64_t{r} * (dims + 1);
      for (int e = 0; e < dims; ++e) row[e] += head_.offset * values[static_cast<size_t>(e)];
      row[dims] += head_.offset * rows;
    }
  }

  // Sums of the matrix's gradients: [heads][2 x chunks] in panel layout, queries then keys of each chunk.
  size_t matrix_floats() const {
    return static_cast<size_t>((call_.input_dim + columns_ - 1) / columns_ * columns_) * static_cast<size_t>(head_.matrix_rows);
  }
  size_t matrix_part(int64_t task, bool keys) const {
    const size_t chunk = static_cast<size_t>(task / call_.heads);
    return ((static_cast<size_t>(head_of(task)) * chunks_.size() + chunk) * 2 + (keys ? 1 : 0)) * matrix_floats();
  }
  void add_matrix_parts(const float* parts, float* d_matrix) const {
    for (int h = 0; h < call_.heads; ++h) {
      const cpu::MatrixSum sum{
          0, {d_matrix + int64_t{h} * head_.matrix_rows * call_.input_dim, head_.matrix_rows, call_.input_dim, call_.input_dim}};
      cpu::add_parts(on_, parts + static_cast<size_t>(h) * chunks_.size() * 2 * matrix_floats(), matrix_floats(),
                     static_cast<int64_t>(chunks_.size()) * 2, {&sum, 1}, {});
    }
  }

 private:
  bool random_exponential() const { return call_.map == FeatureMap::positive || call_.map == FeatureMap::hyperbolic; }

  template <class F>
  void for_parts(int64_t task, const F& f) const {
    const Chunk& c = chunk_of(task);
    const int64_t first = task - int64_t{c.number} * call_.heads;
    for (int n = 0; n < c.count; ++n) f(part(first + int64_t{n} * call_.heads));
  }

  void describe() {
    head_.map = kind(call_.map);
    head_.input = call_.input_dim;
    head_.features = call_.features;
    head_.dims = call_.head_dim;
    head_.matrix_rows = matrix_rows(call_.map, call_.features);
    head_.denominator = kind(call_.denominator);
    head_.epsilon = static_cast<float>(call_.epsilon);
    head_.shifts_given = call_.shifts_given;
    const double per_feature = 1 / std::sqrt(static_cast<double>(call_.features));
    if (call_.map == FeatureMap::relu) {
      head_.input_scale = static_cast<float>(per_feature);
      head_.offset = static_cast<float>(call_.offset);
    } else if (random_exponential()) {
      head_.input_scale = static_cast<float>(1 / std::pow(call_.input_dim, 0.25));
      head_.feature_scale = static_cast<float>(per_feature);
      head_.offset = static_cast<float>(call_.offset * per_feature);
    } else if (call_.map == FeatureMap::trigonometric) {
      head_.feature_scale = static_cast<float>(std::numbers::sqrt2 * per_feature);
      head_.added_length = static_cast<float>(trigonometric_norm);
    }
  }

  void pack_matrices() {
    if (head_.matrix_rows == 0) return;
    const size_t floats = static_cast<size_t>(head_.matrix_rows) * static_cast<size_t>(call_.input_dim);
    if (random_exponential())
      for (size_t i = 0; i < static_cast<size_t>(call_.heads) * floats; ++i) in_bits_.push_back(call_.matrix[i] * bits_per_nat);
    for (size_t h = 0; h < static_cast<size_t>(call_.heads); ++h) {
      const auto view = [&](const float* w) {
        return View<const float>{w + h * floats, head_.matrix_rows, call_.input_dim, call_.input_dim};
      };
      operands_.push_back({view(in_bits_.empty() ? call_.matrix : in_bits_.data()), true});
      operands_.push_back({view(call_.matrix), false});
    }
    packed_ = cpu::pack(on_, operands_);
  }

  const Execution& on_;
  const FeatureAttentionCall<float>& call_;
  int columns_;
  simd::FeatureHead head_;
  simd::FeaturePart part_;
  std::vector<Chunk> chunks_;
  std::vector<float> in_bits_;  // the matrices times log2 e
  std::vector<cpu::Operand> operands_;
  Storage packed_, parts_;
  std::vector<std::atomic<int>> done_;
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
    simd::feature_state(run.head(task), run.chunk(task, true), run.part(task), thread_scratch(run.scratch()));
    if (run.finish(task)) run.merge_states(task, state + run.state_index(task) * run.state_floats());
  });
  on.threads->run(run.tasks(), [&](int64_t task) {
    simd::feature_output(run.head(task), run.chunk(task, false), state + run.state_index(task) * run.state_floats(),
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
  Storage matrices;
  if (d_matrix) matrices = allocate((static_cast<size_t>(run.tasks()) * 2 * run.matrix_floats() + 1) * sizeof(float));
  const auto matrix_part = [&](int64_t task, bool keys) {
    return d_matrix ? reinterpret_cast<float*>(matrices.get()) + run.matrix_part(task, keys) : nullptr;
  };
  on.threads->run(run.tasks(), [&](int64_t task) {
    const float* s = state + run.state_index(task) * run.state_floats();
    simd::feature_backward_queries(run.head(task), run.chunk(task, false), s, {run.at(o, task, call.head_dim), o.stride},
                                   denominator + run.place(task), {run.at(d_o, task, call.head_dim), d_o.stride},
                                   {run.at(dq, task, call.input_dim), dq.stride}, run.part(task), matrix_part(task, false),
                                   thread_scratch(run.scratch()));
    if (!run.finish(task)) return;
    float* const ds = d_states + run.state_index(task) * run.state_floats();
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
    simd::feature_backward_keys(run.head(task), run.chunk(task, true), d_states + run.state_index(task) * run.state_floats(),
                                {run.at(dk, task, call.input_dim), dk.stride}, {run.at(dv, task, call.head_dim), dv.stride},
                                matrix_part(task, true), thread_scratch(run.scratch()));
  });
  if (d_matrix && run.tasks() > 0) run.add_matrix_parts(reinterpret_cast<const float*>(matrices.get()), d_matrix);
}

}  // namespace tapeformer::kernels
