// SPDX-License-Identifier: Apache-2.0
// The interface of optimisers: their settings, the state they keep for each parameter, and the one call that moves all parameters.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/autograd/tape.h"
#include "framework/config/section.h"

namespace tapeformer::optim {

enum class OptimizerType {
#define OPTIMIZER(name) name,
#include "framework/optim/optimizers.def"
#undef OPTIMIZER
};

struct OptimizerSettings {
  OptimizerType type = OptimizerType::adamw;
  double rate = 1e-3;  // `lr`: the peak of the schedule
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double momentum = 0.9;
  double weight_decay = 0;
  bool decay_all = false;                // false: only parameters of rank >= 2, so neither biases nor the scales and shifts of norms
  double clip_norm = 0, clip_value = 0;  // 0 = off
};

// Reads the section `optim`.
OptimizerSettings read_optimizer_settings(config::Section optim);

// Some elements of one parameter, and the same elements of its gradient and slots (in the order of slots()).
template <class T>
struct Elements {
  int64_t count = 0;
  const T* gradient = nullptr;
  T* value = nullptr;
  std::array<T*, 2> slots{};
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Names of what is kept for each parameter: exp_avg, exp_avg_sq, momentum.
  const std::vector<std::string>& slots() const { return slots_; }

  // Makes the slots, all zero, of trainable parameters that have none yet. step() does it too; a resume does it before it fills them.
  void prepare(const std::vector<Parameter*>& parameters);

  // Moves every trainable parameter that has a gradient. `update` counts from 1. Gradients are multiplied by gradient_scale (one over the
  // count of the summed loss, times the factor of clipping by norm), then limited to +-clip_value where that is above 0; they are not
  // changed themselves. The result does not depend on the number of threads.
  void step(const Execution& on, int64_t update, double rate, double gradient_scale, double clip_value,
            const std::vector<Parameter*>& parameters);

  // Every slot of every parameter, in the order of the first step: for checkpoints, which also write into the tensors.
  using SlotVisitor = std::function<void(const std::string& slot, const std::string& parameter, Tensor& tensor)>;
  void visit(const SlotVisitor& visitor);

 protected:
  struct Update {
    int64_t number = 1;
    double rate = 0, decay = 0, gradient_scale = 1, clip_value = 0;
  };
  Optimizer(std::vector<std::string> slots, const OptimizerSettings& settings);
  virtual void move(const Execution& on, const Update& update, const Elements<float>& elements) const = 0;
  virtual void move(const Execution& on, const Update& update, const Elements<double>& elements) const = 0;

 private:
  struct State {
    std::string parameter;
    std::vector<Tensor> slots;
  };
  template <class T>
  void step_typed(const Execution& on, const Update& update, const std::vector<Parameter*>& parameters);
  State& state_of(const Parameter& parameter);

  std::vector<std::string> slots_;
  double weight_decay_;
  bool decay_all_;
  std::vector<State> states_;
  std::map<std::string, size_t> index_;  // of a parameter's name in states_
};

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings);

}  // namespace tapeformer::optim
