// SPDX-License-Identifier: Apache-2.0
// The common part of adam and adamw: averages of the gradient and of its square, corrected for their start at zero
// (Kingma and Ba, 2015, "Adam: a method for stochastic optimization"). The two differ in where the weight decay goes in.
#pragma once
#include <cmath>

#include "framework/optim/typed_optimizer.h"

namespace tapeformer::optim {

enum class Decay { in_the_gradient, decoupled };

class AdamMoments : public TypedOptimizer<AdamMoments> {
 public:
  AdamMoments(const OptimizerSettings& s, Decay decay)
      : TypedOptimizer({"exp_avg", "exp_avg_sq"}, s), beta1_(s.beta1), beta2_(s.beta2), epsilon_(s.epsilon), decay_(decay) {}

 private:
  friend class TypedOptimizer<AdamMoments>;
  template <class T>
  void launch(const Execution& on, const Update& u, const Elements<T>& e) const {
    kernels::AdamSettings a;
    a.rate = u.rate;
    a.beta1 = beta1_;
    a.beta2 = beta2_;
    a.epsilon = epsilon_;
    a.decay = u.decay;
    a.correction1 = 1 - std::pow(beta1_, static_cast<double>(u.number));
    a.correction2 = 1 - std::pow(beta2_, static_cast<double>(u.number));
    a.gradient_scale = u.gradient_scale;
    a.clip_value = u.clip_value;
    a.decoupled = decay_ == Decay::decoupled;
    kernels::launch<kernels::AdamStep, T>(on, a, e.count, e.gradient, e.value, e.slots[0], e.slots[1]);
  }

  double beta1_, beta2_, epsilon_;
  Decay decay_;
};

}  // namespace tapeformer::optim
