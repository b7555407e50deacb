// SPDX-License-Identifier: Apache-2.0
// Expands variants.def into the table of variants.
#include <array>

#include "models/attention/variant.h"

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

const std::vector<std::string>& query_key_value() {
  static const std::vector<std::string> parts{"query", "key", "value"};
  return parts;
}

}  // namespace tapeformer::models
