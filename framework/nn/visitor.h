// SPDX-License-Identifier: Apache-2.0
// The one walk over a model: parameters and buffers under their dotted names. Checkpoints, optimisers, freezing, the summary and random
// keys all come from it.
#pragma once
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "framework/autograd/tape.h"

namespace tapeformer::nn {

// State that is saved but not learned; never on the tape.
struct Buffer {
  std::string name;
  Tensor value;
  bool frozen = false;  // its owner does not move it
};

// Facts about a layer that its checkpoint group carries beside its buffers.
using LayerFacts = std::map<std::string, std::variant<bool, int64_t, double, std::string>>;

class Visitor {
 public:
  virtual ~Visitor() = default;
  virtual void parameter(Parameter&) {}
  virtual void buffer(Buffer&) {}
  virtual void facts(const std::string& /*layer*/, const LayerFacts&) {}
};

// Everything a walk meets, in its order.
struct ModelState : Visitor {
  std::vector<Parameter*> parameters;
  std::vector<Buffer*> buffers;
  std::map<std::string, LayerFacts> layers;
  void parameter(Parameter& p) override { parameters.push_back(&p); }
  void buffer(Buffer& b) override { buffers.push_back(&b); }
  void facts(const std::string& layer, const LayerFacts& f) override { layers[layer] = f; }
};

}  // namespace tapeformer::nn
