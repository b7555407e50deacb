// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/linear.h"

namespace tapeformer::nn {

Linear::Linear(const Builder& build, const std::string& name, int64_t in, int64_t out, double gain)
    : weight(build.xavier_uniform(name + ".weight", out, in, gain)), bias(build.constant(name + ".bias", {out}, 0)) {}

}  // namespace tapeformer::nn
