// SPDX-License-Identifier: Apache-2.0
// Expands variants.def into the table of variants.
#include <array>

#include "models/attention/attention.h"

namespace tapeformer::models {

#define ATTENTION_VARIANT(name) AttentionVariant name##_variant();
#include "models/attention/variants.def"
#undef ATTENTION_VARIANT

std::span<const AttentionVariant> attention_variants() {
#define ATTENTION_VARIANT(name) name##_variant(),
  static const std::array variants{
#include "models/attention/variants.def"
  };
#undef ATTENTION_VARIANT
  return variants;
}

}  // namespace tapeformer::models
