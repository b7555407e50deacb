// SPDX-License-Identifier: Apache-2.0
// The size of a gradient over all parameters, the factor that limits it, and the names of the parameters where it is not finite.
#pragma once
#include <string>
#include <vector>

#include "framework/autograd/tape.h"

namespace tapeformer::optim {

// The 2-norm over the gradients of all trainable parameters, summed in double in the order of the list; the same for any number of
// threads. Infinite or NaN when an element is. Parameters without a gradient count as zero.
double gradient_norm(const Execution& on, const std::vector<Parameter*>& parameters);

struct GradientScale {
  double norm = 0;   // of the gradient of the mean loss, before clipping: the number to log
  double scale = 0;  // what the summed gradients are to be multiplied by: min(1, clip_norm / norm) / count
};
// `summed_norm` is the norm of the gradients of the summed loss, `count` what the sum is divided by. clip_norm 0 = off. A count of 0 (every
// target ignored) has no mean: norm and scale are 0.
GradientScale gradient_scale(double summed_norm, double count, double clip_norm);

// Names of the trainable parameters whose gradient has a NaN or infinite element, in the order of the list.
std::vector<std::string> nonfinite_gradients(const std::vector<Parameter*>& parameters);

}  // namespace tapeformer::optim
