// SPDX-License-Identifier: Apache-2.0
// Adam with its L2 penalty: decay times the parameter is added to the gradient before the averages see it.
#include "framework/optim/adam_moments.h"

namespace tapeformer::optim {

std::unique_ptr<Optimizer> make_adam(const OptimizerSettings& settings) {
  return std::make_unique<AdamMoments>(settings, Decay::in_the_gradient);
}

}  // namespace tapeformer::optim
