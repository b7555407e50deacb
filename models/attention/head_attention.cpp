// SPDX-License-Identifier: Apache-2.0
#include "models/attention/head_attention.h"

#include <cmath>
#include <numbers>

#include "framework/ops/attention.h"

namespace tapeformer::models {
namespace {

// Xavier with gain 1 / sqrt(2) on q, k and v (Ott et al. 2019, fairseq).
constexpr double projection_gain = 1 / std::numbers::sqrt2;

Parameter slice(const Parameter& whole, const std::string& name, int64_t first, int64_t count) {
  return {name, whole.value.rows(first, count), whole.gradient.rows(first, count), true};
}

}  // namespace

HeadAttention::HeadAttention(const nn::Builder& build, const std::string& name, const AttentionSettings& s)
    : name_(name),
      settings_(s),
      qkv_weight_(build.constant(name + ".qkv.weight", {3 * s.dim, s.dim}, 0)),
      qkv_bias_(build.constant(name + ".qkv.bias", {3 * s.dim}, 0)),
      query_(slice(qkv_weight_, name + ".query.weight", 0, s.dim)),
      key_(slice(qkv_weight_, name + ".key.weight", s.dim, s.dim)),
      value_(slice(qkv_weight_, name + ".value.weight", 2 * s.dim, s.dim)),
      query_bias_(slice(qkv_bias_, name + ".query.bias", 0, s.dim)),
      key_bias_(slice(qkv_bias_, name + ".key.bias", s.dim, s.dim)),
      value_bias_(slice(qkv_bias_, name + ".value.bias", 2 * s.dim, s.dim)),
      output_(build, name + ".output", s.dim, s.dim) {
  for (const Parameter* p : {&query_, &key_, &value_}) nn::fill_xavier_uniform(build.seed, p->name, p->value, projection_gain);
}

AttentionOutput HeadAttention::forward(Context& context, const Variable& x, const Packing& packing, const Sublayer& around) {
  qkv_weight_.trainable = query_.trainable || key_.trainable || value_.trainable;
  const Variable qkv = around.norm ? ops::norm_linear(context, x, around.norm->parameters(), qkv_weight_, &qkv_bias_)
                                   : ops::linear(context, x, qkv_weight_, &qkv_bias_);
  const Variable o = heads(context, qkv, packing);
  if (context.inspect) context.inspect(name_, o.value);
  return {ops::linear_residual(context, o, output_.weight, &output_.bias, context.dropout(around.dropout, "dropout", name_, packing),
                               around.residual),
          std::nullopt};
}

void HeadAttention::visit(nn::Visitor& visitor) {
  for (Parameter* p : {&query_, &query_bias_, &key_, &key_bias_, &value_, &value_bias_}) visitor.parameter(*p);
  output_.visit(visitor);
}

std::vector<std::pair<Tensor, Tensor>> HeadAttention::input_readers() { return {{qkv_weight_.value, qkv_bias_.value}}; }

Variable PlannedAttention::heads(Context& context, const Variable& qkv, const Packing& packing) {
  plans_.make_room();
  ops::AttentionPart plans;
  for (int b = 0; b < packing.sequences(); ++b)
    plans.push_back(plans_.get(packing.length(b), [this](int32_t length) { return plan(length); }));
  return ops::attention(context, qkv, packing, plans,
                        {.heads = settings().heads,
                         .scale = 1 / std::sqrt(static_cast<double>(head_dim())),
                         .dropout = settings().dropout,
                         .name = name()});
}

// 4 D a pair forward, 10 D backward in one pass (scores again, dP, dV, dQ, dK); the log-sum-exp is kept.
AttentionCost PlannedAttention::cost(const std::vector<int32_t>& lengths) const {
  AttentionCost sum;
  for (const int32_t n : lengths) {
    const double pairs = static_cast<double>(plan(n).pairs) * static_cast<double>(settings().dim);
    sum.forward_flops += 4 * pairs;
    sum.backward_flops += 10 * pairs;
    sum.saved_bytes += 4.0 * n * settings().heads;
  }
  return sum;
}

}  // namespace tapeformer::models
