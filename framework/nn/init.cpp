// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/init.h"

#include <cmath>

namespace tapeformer::nn {
namespace {

// value(row, column) for each element; the column counts all axes but the first.
template <class F>
void fill(const Tensor& t, F&& value) {
  const auto store = [&](auto view) {
    for (int64_t r = 0; r < view.rows; ++r)
      for (int64_t c = 0; c < view.columns; ++c)
        view.row(r)[c] =
            static_cast<std::remove_reference_t<decltype(*view.data)>>(value(static_cast<uint32_t>(r), static_cast<uint32_t>(c)));
  };
  if (t.dtype() == Dtype::f32) store(t.matrix<float>());
  else store(t.matrix<double>());
}

Draw init_draw(uint64_t seed, const std::string& name) { return {random_key(seed, "init", name), no_sample, 0}; }

Parameter empty_parameter(std::string name, Dtype dtype, Shape shape) {
  return {std::move(name), Tensor(dtype, shape), Tensor::zeros(dtype, shape), true};
}

}  // namespace

void fill_xavier_uniform(uint64_t seed, const std::string& name, const Tensor& weight, double gain) {
  const double bound = gain * std::sqrt(6.0 / static_cast<double>(weight.shape()[0] + weight.shape()[1]));
  const Draw draw = init_draw(seed, name);
  fill(weight, [&](uint32_t r, uint32_t c) { return bound * (2 * draw.uniform(r, c) - 1); });
}

void fill_gaussian(const Draw& draw, const Tensor& matrix) {
  fill(matrix, [&](uint32_t r, uint32_t c) { return draw.gaussian(r, c); });
}

Parameter Builder::constant(std::string name, Shape shape, double value) const {
  Parameter p = empty_parameter(std::move(name), dtype, shape);
  fill(p.value, [&](uint32_t, uint32_t) { return value; });
  return p;
}

Parameter Builder::normal(std::string name, Shape shape, double deviation) const {
  Parameter p = empty_parameter(std::move(name), dtype, shape);
  const Draw draw = init_draw(seed, p.name);
  fill(p.value, [&](uint32_t r, uint32_t c) { return deviation * draw.gaussian(r, c); });
  return p;
}

Parameter Builder::xavier_uniform(std::string name, int64_t out, int64_t in, double gain) const {
  Parameter p = empty_parameter(std::move(name), dtype, {out, in});
  fill_xavier_uniform(seed, p.name, p.value, gain);
  return p;
}

}  // namespace tapeformer::nn
