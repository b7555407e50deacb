// SPDX-License-Identifier: Apache-2.0
// The `model` section of a config.
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "framework/config/section.h"
#include "framework/data/dataset.h"
#include "framework/kernels/pooling.h"
#include "framework/nn/feed_forward.h"
#include "framework/nn/norm.h"
#include "models/attention/layers.h"

namespace tapeformer::models {

enum class NormPosition : uint8_t { pre, post };
enum class PositionType : uint8_t { learned, sinusoidal, none };

struct ModelSettings {
  int64_t dim = 64;
  int layers = 2;
  double dropout = 0.1;  // of the embedding and the residual branches
  nn::FeedForwardSettings feed_forward{.dim = 128, .activation = Activation::gelu, .dropout = 0.1};
  std::vector<nn::NormType> norm;  // [layers]
  NormPosition norm_position = NormPosition::pre;
  nn::BatchNormSettings batch_norm;
  PositionType position = PositionType::learned;
  AttentionLayers attention;
  Pooling pooling = Pooling::mean;
  int64_t head_hidden = 0;  // 0: the head is one linear layer
  double head_dropout = 0;
  double label_smoothing = 0;

  bool has_batch_norm() const { return std::find(norm.begin(), norm.end(), nn::NormType::batch_norm) != norm.end(); }
};

// `max_length` is that of the data's sequences where the config says it; what cannot take so many rows is then a fault of the config, as is
// a key that the task leaves without meaning.
ModelSettings read_model_settings(config::Section root, int64_t max_length = 0, data::Task task = data::Task::classification);

}  // namespace tapeformer::models
