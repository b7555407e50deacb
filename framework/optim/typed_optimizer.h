// SPDX-License-Identifier: Apache-2.0
// An optimiser whose rule is one template for both dtypes: `Rule` has `launch(on, update, elements)`.
#pragma once
#include "framework/kernels/launch.h"
#include "framework/kernels/optimizer_step.h"
#include "framework/optim/optimizer.h"

namespace tapeformer::optim {

template <class Rule>
class TypedOptimizer : public Optimizer {
 protected:
  using Optimizer::Optimizer;
  void move(const Execution& on, const Update& u, const Elements<float>& e) const override { rule().launch(on, u, e); }
  void move(const Execution& on, const Update& u, const Elements<double>& e) const override { rule().launch(on, u, e); }

 private:
  const Rule& rule() const { return static_cast<const Rule&>(*this); }
};

}  // namespace tapeformer::optim
