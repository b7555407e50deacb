// SPDX-License-Identifier: Apache-2.0
#include "framework/kernels/cpu/feature_run.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/kernels/cpu/simd/panels.h"

namespace tapeformer::kernels::cpu {
namespace {

constexpr simd::Feature kind(FeatureMap m) { return static_cast<simd::Feature>(m); }
constexpr simd::Denominate kind(Denominator d) { return static_cast<simd::Denominate>(d); }
static_assert(kind(FeatureMap::given) == simd::Feature::given && kind(FeatureMap::positive) == simd::Feature::positive &&
              kind(FeatureMap::hyperbolic) == simd::Feature::hyperbolic && kind(FeatureMap::relu) == simd::Feature::relu &&
              kind(FeatureMap::trigonometric) == simd::Feature::trigonometric && kind(FeatureMap::cosine) == simd::Feature::cosine &&
              kind(FeatureMap::softmax) == simd::Feature::softmax && kind(FeatureMap::elu) == simd::Feature::elu &&
              kind(Denominator::add) == simd::Denominate::add && kind(Denominator::clamp) == simd::Denominate::clamp &&
              kind(Denominator::none) == simd::Denominate::none);
static_assert(feature_chunk_rows % simd::feature_tile == 0);

bool random_exponential(FeatureMap map) { return map == FeatureMap::positive || map == FeatureMap::hyperbolic; }

}  // namespace

FeatureRun::FeatureRun(const Execution& on, const FeatureAttentionCall<float>& call)
    : call_(call),
      on_(on),
      columns_(simd::panel_columns()),
      layout_(call.features, call.head_dim, columns_),
      done_(static_cast<size_t>(call.packing->sequences() * call.heads)) {
  for (int b = 0; b < call.packing->sequences(); ++b) {
    const int32_t length = call.packing->length(b), first = call.packing->offsets()[static_cast<size_t>(b)];
    const int count = (length + feature_chunk_rows - 1) / feature_chunk_rows;
    for (int n = 0; n < count; ++n)
      chunks_.push_back({b, n, count, first + n * feature_chunk_rows, std::min(feature_chunk_rows, length - n * feature_chunk_rows)});
  }
  parts_ = allocate((static_cast<size_t>(tasks()) * layout_.size + 1) * sizeof(float));
  describe();
  pack_matrices();
}

simd::FeatureHead FeatureRun::head(int64_t task) const {
  simd::FeatureHead out = head_;
  const auto h = static_cast<size_t>(head_of(task));
  if (head_.matrix_rows > 0) {
    out.panels = operands_[2 * h].data;
    out.back_panels = operands_[2 * h + 1].data;
  }
  return out;
}

simd::FeatureChunk FeatureRun::chunk(int64_t task, bool keys) const {
  const Chunk& c = chunk_of(task);
  simd::FeatureChunk out;
  out.rows = c.rows;
  out.place = c.number * feature_chunk_rows;
  if (call_.lengths) out.angle = static_cast<float>(std::numbers::pi / (2 * call_.lengths[c.sequence]));
  out.x = {at(keys ? call_.k : call_.q, task, call_.input_dim), keys ? call_.k.stride : call_.q.stride};
  out.v = {at(call_.v, task, call_.head_dim), call_.v.stride};
  return out;
}

void FeatureRun::keep_matrix_parts() { matrix_parts_ = allocate((static_cast<size_t>(tasks()) * 2 * matrix_floats() + 1) * sizeof(float)); }

float* FeatureRun::matrix_part(int64_t task, bool keys) const {
  if (!matrix_parts_) return nullptr;
  const size_t chunk = static_cast<size_t>(task / call_.heads);
  const size_t number = (static_cast<size_t>(head_of(task)) * chunks_.size() + chunk) * 2 + (keys ? 1 : 0);
  return reinterpret_cast<float*>(matrix_parts_.get()) + number * matrix_floats();
}

void FeatureRun::add_matrix_parts(float* d_matrix) const {
  if (!matrix_parts_ || chunks_.empty()) return;
  const auto* const parts = reinterpret_cast<const float*>(matrix_parts_.get());
  for (int h = 0; h < call_.heads; ++h) {
    const MatrixSum sum{0,
                        {d_matrix + int64_t{h} * head_.matrix_rows * call_.input_dim, head_.matrix_rows, call_.input_dim, call_.input_dim}};
    add_parts(on_, parts + static_cast<size_t>(h) * chunks_.size() * 2 * matrix_floats(), matrix_floats(),
              static_cast<int64_t>(chunks_.size()) * 2, {&sum, 1}, {});
  }
}

void FeatureRun::describe() {
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
  } else if (random_exponential(call_.map)) {
    head_.input_scale = static_cast<float>(1 / std::pow(call_.input_dim, 0.25));
    head_.feature_scale = static_cast<float>(per_feature);
    head_.offset = static_cast<float>(call_.offset * per_feature);
  } else if (call_.map == FeatureMap::trigonometric) {
    head_.feature_scale = static_cast<float>(std::numbers::sqrt2 * per_feature);
    head_.added_length = static_cast<float>(trigonometric_norm);
  }
}

void FeatureRun::pack_matrices() {
  if (head_.matrix_rows == 0) return;
  const size_t floats = static_cast<size_t>(head_.matrix_rows) * static_cast<size_t>(call_.input_dim);
  if (random_exponential(call_.map))
    for (size_t i = 0; i < static_cast<size_t>(call_.heads) * floats; ++i) in_bits_.push_back(call_.matrix[i] * bits_per_nat);
  for (size_t h = 0; h < static_cast<size_t>(call_.heads); ++h) {
    const auto view = [&](const float* w) {
      return View<const float>{w + h * floats, head_.matrix_rows, call_.input_dim, call_.input_dim};
    };
    operands_.push_back({view(in_bits_.empty() ? call_.matrix : in_bits_.data()), true});
    operands_.push_back({view(call_.matrix), false});
  }
  packed_ = pack(on_, operands_);
}

}  // namespace tapeformer::kernels::cpu
