// SPDX-License-Identifier: Apache-2.0
#include "framework/autograd/context.h"

#include "framework/core/random.h"

namespace tapeformer {

DropoutDraw Context::dropout(double p, std::string_view purpose, std::string_view name, const Packing& packing) const {
  if (!draws_dropout(p)) return {};
  return {random_key(seed, purpose, name), dropout_threshold(p),        1 / (1 - p), step,
          packing.positions().data(),      packing.row_samples().data()};
}

}  // namespace tapeformer
