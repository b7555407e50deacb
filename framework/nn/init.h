// SPDX-License-Identifier: Apache-2.0
// How parameters come to be: named tensors filled from the run's seed, the same on every device and in every precision up to rounding.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "framework/autograd/tape.h"
#include "framework/core/random.h"

namespace tapeformer::nn {

// A parameter that several layers own together. The layer that made it, the first that asked, lists it in its visit.
struct SharedParameter {
  std::shared_ptr<Parameter> parameter;
  bool made_here = false;
};

// What layers need while they are built.
struct Builder {
  uint64_t seed = 0;
  Dtype dtype = Dtype::f32;
  std::shared_ptr<std::map<std::string, std::shared_ptr<Parameter>>> shared_parameters =
      std::make_shared<std::map<std::string, std::shared_ptr<Parameter>>>();  // of one model

  Parameter constant(std::string name, Shape shape, double value) const;
  Parameter normal(std::string name, Shape shape, double deviation) const;
  // Glorot, Bengio 2010: uniform in +-gain sqrt(6 / (fan_in + fan_out)) for a weight [out, in].
  Parameter xavier_uniform(std::string name, int64_t out, int64_t in, double gain) const;
  // The parameter of this name that all layers of the model own together: make() where none has asked for it yet.
  template <class Make>
  SharedParameter shared(const std::string& name, Make&& make) const {
    std::shared_ptr<Parameter>& held = (*shared_parameters)[name];
    const bool first = !held;
    if (first) held = std::make_shared<Parameter>(make());
    return {held, first};
  }
};

// Fills a matrix (a parameter or a slice of one) as if it were the parameter `name`.
void fill_xavier_uniform(uint64_t seed, const std::string& name, const Tensor& weight, double gain);
// Standard normal values, the draw's at (row, column).
void fill_gaussian(const Draw&, const Tensor& matrix);

}  // namespace tapeformer::nn
