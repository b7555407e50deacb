// SPDX-License-Identifier: Apache-2.0
// Attention through points: a few rows beside each sequence look at all its rows (gather), and all its rows look at them (give back). What
// `induced` and `luna` share; projections are theirs.
#pragma once
#include "framework/ops/attention.h"
#include "models/attention/attention.h"

namespace tapeformer::models {

class PointAttention {
 public:
  // Probabilities are dropped by the layer's name: pack_dropout where points look, attention_dropout where rows do.
  PointAttention(std::string layer_name, const AttentionSettings& layer, int points)
      : name_(std::move(layer_name)), layer_(layer), points_(points) {}

  // The points [m,C] once for each sequence: [m * B, C].
  Variable repeated(Context&, const Variable& points, const Packing&) const;
  // Projection i of several side by side.
  Variable part(Context&, const Variable& projected, int i) const;
  // What the points see of the rows, heads side by side: query [m * B, C], key and value [T,C] -> [m * B, C].
  Variable gather(Context&, const Variable& query, const Variable& key, const Variable& value, const Packing&) const;
  // What the rows see of the points: query [T,C], key and value [m * B, C] -> [T,C].
  Variable give_back(Context&, const Variable& query, const Variable& key, const Variable& value, const Packing&) const;
  // What rows take of each other through the points, each head through the head of its number: [heads * n, n] for one sequence.
  Tensor weights(Context&, const Variable& gather_query, const Variable& gather_key, const Variable& query, const Variable& key,
                 const Packing&) const;

 private:
  ops::AttentionSettings softmax(std::string_view purpose) const;

  std::string name_;
  AttentionSettings layer_;
  int points_;
};

}  // namespace tapeformer::models
