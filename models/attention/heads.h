// SPDX-License-Identifier: Apache-2.0
// What most variants are: heads that work on slices of one projection. A group of heads owns neither the projection nor the output
// projection, so that groups of different variants can stand side by side in one layer.
#pragma once
#include <cmath>
#include <functional>

#include "framework/ops/attention.h"
#include "framework/ops/sparse_rows.h"
#include "models/attention/attention.h"

namespace tapeformer::models {

struct HeadSettings {
  AttentionSettings layer;
  std::string layer_name;  // "encoder.layers.0.attention": in the keys of all random draws, with the head's number in the layer
  std::string name;        // what the group owns is named below this: layer_name, or layer_name + ".groups.<g>"
  int heads = 1;           // of the group
  int first_head = 0;      // the number in the layer of its head 0
  int head_dim = 1;
};

// What a layer's heads may read.
class LayerInput {
 public:
  LayerInput(const Variable& x, const Packing& packing, nn::LayerNorm* norm) : x_(x), packing_(packing), norm_(norm) {}
  const Packing& packing() const { return packing_; }
  // The normalised input [T,C], made at the first call.
  const Variable& x(Context& context) {
    if (norm_ && !normalised_) normalised_ = norm_->forward(context, x_);
    return normalised_ ? *normalised_ : x_;
  }
  // The normalised input times a weight [N,C] plus a bias [N]: [T,N], in one fused pass.
  Variable project(Context& context, Parameter& weight, Parameter* bias) const { return projected(context, x_, weight, bias); }
  // The same of some rows only (a map without weights): [rows of the map, N].
  Variable project(Context& context, Parameter& weight, Parameter* bias, ops::RowMapPointer rows) const {
    return projected(context, ops::sparse_rows(context, x_, std::move(rows)), weight, bias);
  }

 private:
  Variable projected(Context& context, const Variable& x, Parameter& weight, Parameter* bias) const {
    return norm_ ? ops::norm_linear(context, x, norm_->parameters(), weight, bias) : ops::linear(context, x, weight, bias);
  }

  Variable x_;
  const Packing& packing_;
  nn::LayerNorm* norm_;
  std::optional<Variable> normalised_;
};

struct HeadInput {
  // [T, parts * heads * D]: query, key and value side by side (or what the variant's projections() names), head h in columns h * D of each.
  Variable projected;
  const Packing& packing;
  LayerInput& layer;
  // The group's slices of the layer's projection of other rows [M,C], which are taken as they are: [M, parts * heads * D].
  std::function<Variable(Context&, const Variable& rows)> project_rows;
  // The values in `projected` stand for all values: a group that makes others of its own leaves them (see Attention::weights).
  bool plain_values = false;
};

struct HeadOutput {
  HeadOutput(Variable output) : o(std::move(output)) {}  // most variants have nothing else to say
  HeadOutput(Variable output, ops::Loss loss) : o(std::move(output)), auxiliary{std::move(loss)} {}
  Variable o;  // [T, heads * D]
  std::vector<ops::Loss> auxiliary;
};

// One head of one sequence, for the oracle. Arrays are row-major.
struct DenseInput {
  int32_t n;  // rows, extra ones included
  int head;   // its number in the layer
  int head_dim;
  std::vector<std::vector<double>> projected;  // [parts], each [n,D]
  std::span<const double> q() const { return projected.front(); }
  std::span<const double> k() const { return projected.at(1); }
  std::span<const double> v() const { return projected.back(); }
  std::span<const double> x;  // [n,C], the normalised input
  // What the probability of (query, key or slot) is multiplied by, hidden rows counted first; empty: 1.
  std::function<double(int32_t i, int32_t j)> kept;
  // Part p of this head's projection of other rows [M,C]: [M,D].
  std::function<std::vector<double>(std::span<const double> rows, size_t part)> project_rows;
  // The structure that the pass under test chose (Context::structures), for the whole batch; this sequence starts at row `first` of it.
  const Structures* structures = nullptr;
  int sequence = 0;
  int32_t first = 0;
};

class Heads {
 public:
  // Whether forward() knows AttentionSettings::causal, and what a row sees before itself does not depend on the sequence's length.
  static constexpr bool can_be_causal = false;

  explicit Heads(HeadSettings settings) : settings_(std::move(settings)) {}
  virtual ~Heads() = default;
  virtual HeadOutput forward(Context&, HeadInput&) = 0;
  // Only what the group owns.
  virtual void visit(nn::Visitor&) {}
  virtual void after_update(Context&) {}
  virtual AttentionCost cost(const std::vector<int32_t>& lengths) const = 0;
  virtual double pairs(int32_t n) const { return settings_.layer.causal ? n * (n + 1.0) / 2 : static_cast<double>(n) * n; }
  // False where o is no product of a matrix of weights [n,n] with v, the same for every channel.
  virtual bool has_weights() const { return true; }
  virtual bool has_auxiliary() const { return false; }
  // Its own readers of the normalised input; see Attention.
  virtual InputReaders input_readers() { return InputReaders{std::in_place}; }

  // Rows that the group puts in front of what the layer gives it, and takes off again.
  virtual int32_t hidden_rows() const { return 0; }
  // Learned rows before the sequence's own: a causal row sees those of them that its pattern has, wherever it stands.
  int32_t front() const { return hidden_rows() + settings_.layer.extra_rows; }

  // The oracle; `head` is the number in the layer. Either which keys a query may use (softmax variants): those of a pattern, of which
  // causal heads keep what stands before,
  virtual bool in_pattern(int32_t /*n*/, int /*head*/, int32_t /*i*/, int32_t /*j*/) const { return true; }
  bool allowed(int32_t n, int head, int32_t i, int32_t j) const {
    return in_pattern(n, head, i, j) && (!settings_.layer.causal || j <= i || j < front());
  }
  // The same for the n rows of the layer, counted without hidden ones.
  bool allowed_in_layer(int32_t n, int head, int32_t i, int32_t j) const {
    const int32_t hidden = hidden_rows();
    return allowed(n + hidden, head, i + hidden, j + hidden);
  }
  // or the whole matrix of weights [n,n] with o = weights v,
  virtual std::vector<double> dense_weights(const DenseInput&) const { return {}; }
  // or, where o is no such product, o [n,D] itself.
  virtual std::vector<double> dense_output(const DenseInput&) const { return {}; }

  const HeadSettings& settings() const { return settings_; }

 protected:
  double scale() const { return 1 / std::sqrt(static_cast<double>(settings_.head_dim)); }  // of the scores
  // Of a softmax of all heads of the group. The settings refer to the layer's name, and are for calls of this object's forward().
  ops::AttentionSettings softmax(std::string_view purpose = "attention_dropout") const {
    return {.heads = settings_.heads,
            .scale = scale(),
            .dropout = settings_.layer.dropout,
            .name = settings_.layer_name,
            .first_head = settings_.first_head,
            .purpose = purpose};
  }

 private:
  HeadSettings settings_;
};

}  // namespace tapeformer::models
