// SPDX-License-Identifier: Apache-2.0
// The section `model.attention`: which variant each layer has, or which groups of heads, and how a layer's attention is made from that.
#pragma once
#include "models/attention/variant.h"

namespace tapeformer::models {

// Heads of one variant.
struct HeadGroup {
  const AttentionVariant* variant = nullptr;
  int heads = 0;
  std::shared_ptr<const void> own_settings;
  std::string type_key, heads_key;  // where it was chosen
};

struct AttentionLayers {
  std::vector<std::vector<HeadGroup>> layers;  // the groups of each layer; most have one
  int heads = 4;
  double dropout = 0;
  bool causal = false;
  ExtraRows extra_rows;  // in front of every sequence, from the first layer to the last
};

// `max_length` is that of the data's sequences as far as the config says it, else 0.
AttentionLayers read_attention(config::Section, int64_t dim, int layers, int64_t max_length);

// `settings` as the layer's number and the data say; heads, dropout and extra rows come from `layers`.
std::unique_ptr<Attention> make_attention(const nn::Builder&, const std::string& name, AttentionSettings settings,
                                          const AttentionLayers& layers);

}  // namespace tapeformer::models
