// SPDX-License-Identifier: Apache-2.0
// AdamW (Loshchilov and Hutter, 2019, "Decoupled weight decay regularization"): p -= rate decay p, then Adam's step without the decay.
#include "framework/optim/adam_moments.h"

namespace tapeformer::optim {

std::unique_ptr<Optimizer> make_adamw(const OptimizerSettings& settings) {
  return std::make_unique<AdamMoments>(settings, Decay::decoupled);
}

}  // namespace tapeformer::optim
