// SPDX-License-Identifier: Apache-2.0
// Gradient descent with momentum: b = momentum b + (g + decay p), p -= rate b. Without momentum nothing is kept.
#include "framework/optim/typed_optimizer.h"

namespace tapeformer::optim {
namespace {

std::vector<std::string> slots_for(double momentum) {
  if (momentum == 0) return {};
  return {"momentum"};
}

class Sgd : public TypedOptimizer<Sgd> {
 public:
  explicit Sgd(const OptimizerSettings& s) : TypedOptimizer(slots_for(s.momentum), s), momentum_(s.momentum) {}

 private:
  friend class TypedOptimizer<Sgd>;
  template <class T>
  void launch(const Execution& on, const Update& u, const Elements<T>& e) const {
    const kernels::SgdSettings s{u.rate, momentum_, u.decay, u.gradient_scale, u.clip_value};
    kernels::launch<kernels::SgdStep, T>(on, s, e.count, e.gradient, e.value, e.slots[0]);
  }

  double momentum_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimizerSettings& settings) { return std::make_unique<Sgd>(settings); }

}  // namespace tapeformer::optim
