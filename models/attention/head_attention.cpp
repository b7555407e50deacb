// SPDX-License-Identifier: Apache-2.0
#include "models/attention/head_attention.h"

#include <algorithm>

#include "framework/ops/columns.h"
#include "models/attention/shown_weights.h"

namespace tapeformer::models {
namespace {

std::vector<std::string> below(const std::string& name, const std::vector<std::string>& parts) {
  std::vector<std::string> names;
  for (const std::string& part : parts) names.push_back(fmt::format("{}.{}", name, part));
  return names;
}

}  // namespace

Tensor first_projection(const nn::Builder& build, const std::string& layer_name, const std::string& part, int64_t dim) {
  Tensor weight(build.dtype, {dim, dim});
  nn::fill_xavier_uniform(build.seed, fmt::format("{}.{}.weight", layer_name, part), weight, projection_gain);
  return weight;
}

HeadAttention::HeadAttention(const nn::Builder& build, const std::string& name, const AttentionSettings& s, std::vector<std::string> parts,
                             std::vector<std::unique_ptr<Heads>> groups)
    : name_(name),
      settings_(s),
      parts_(std::move(parts)),
      input_(build, below(name, parts_), s.dim, s.dim),
      groups_(std::move(groups)),
      output_(build, name + ".output", s.dim, s.dim) {}

AttentionOutput HeadAttention::forward(Context& context, const Variable& x, const Packing& packing, const Sublayer& around) {
  LayerInput input(x, packing, around.norm);
  HeadOutput result = heads(context, input.project(context, input_.weight(), &input_.bias()), input);
  if (context.inspect) context.inspect(name_, result.o.value);
  const DropoutDraw dropout = context.dropout(around.dropout, "dropout", name_, packing);
  return {ops::linear_residual(context, result.o, output_.weight, &output_.bias, dropout, around.residual), std::move(result.auxiliary)};
}

Variable HeadAttention::slice(Context& context, const Variable& projected, const Heads& group) const {
  if (groups_.size() == 1) return projected;
  std::vector<ops::ColumnRange> ranges;
  for (size_t p = 0; p < parts_.size(); ++p)
    ranges.push_back(
        {static_cast<int64_t>(p) * settings_.dim + group.settings().first_head * head_dim(), group.settings().heads * head_dim()});
  return ops::columns(context, projected, ranges);
}

HeadOutput HeadAttention::heads(Context& context, const Variable& projected, LayerInput& input, bool plain_values) {
  std::vector<Variable> outputs;
  std::vector<ops::Loss> auxiliary;
  for (const auto& group : groups_) {
    if (plain_values && !group->has_weights()) {
      outputs.push_back({Tensor::zeros(projected.value.dtype(), {input.packing().rows(), group->settings().heads * head_dim()}), no_node});
      continue;
    }
    const auto project_rows = [&](Context& c, const Variable& rows) { return slice(c, input_.forward(c, rows), *group); };
    HeadInput one{slice(context, projected, *group), input.packing(), input, project_rows, plain_values};
    HeadOutput result = group->forward(context, one);
    outputs.push_back(std::move(result.o));
    auxiliary.insert(auxiliary.end(), result.auxiliary.begin(), result.auxiliary.end());
  }
  HeadOutput all(outputs.size() == 1 ? outputs[0] : ops::join_columns(context, outputs));
  all.auxiliary = std::move(auxiliary);
  return all;
}

Tensor HeadAttention::weights(Context& context, const Variable& x, const Packing& packing, const Sublayer& around) {
  require(packing.sequences() == 1 && !context.tape && context.mode == Mode::evaluate,
          "{}: weights are shown for one sequence in evaluation", name_);
  if (!any_weights()) return {};
  const int64_t n = packing.rows(), d = head_dim();
  LayerInput input(x, packing, around.norm);
  const Tensor projected = input.project(context, input_.weight(), &input_.bias()).value.clone();
  const Tensor values = projected.columns(static_cast<int64_t>(parts_.size() - 1) * settings_.dim, settings_.dim);
  return shown_weights(projected.dtype(), settings_.heads, n, d, [&](const Tensor& columns) {
    values.copy_from(columns);
    return heads(context, {projected, no_node}, input, true).o.value;
  });
}

bool HeadAttention::any_weights() const {
  return std::any_of(groups_.begin(), groups_.end(), [](const auto& group) { return group->has_weights(); });
}

const Heads& HeadAttention::group_of(int head) const {
  for (const auto& group : groups_)
    if (head < group->settings().first_head + group->settings().heads) return *group;
  fail(ExitCode::internal, "{} has no head {}", name_, head);
}

void HeadAttention::visit(nn::Visitor& visitor) {
  input_.visit(visitor);
  for (const auto& group : groups_) group->visit(visitor);
  output_.visit(visitor);
}

void HeadAttention::after_update(Context& context) {
  for (const auto& group : groups_) group->after_update(context);
}

AttentionCost HeadAttention::cost(const std::vector<int32_t>& lengths) const {
  AttentionCost sum;
  for (const auto& group : groups_) sum += group->cost(lengths);
  return sum;
}

double HeadAttention::pairs(int32_t n) const {
  double sum = 0;
  for (const auto& group : groups_) sum += group->pairs(n) * group->settings().heads;
  return sum / settings_.heads;
}

bool HeadAttention::has_auxiliary() const {
  return std::any_of(groups_.begin(), groups_.end(), [](const auto& group) { return group->has_auxiliary(); });
}

InputReaders HeadAttention::input_readers() {
  InputReaders all{std::in_place};
  all->emplace_back(input_.weight().value, input_.bias().value);
  for (const auto& group : groups_) {
    const InputReaders own = group->input_readers();
    if (!own) return std::nullopt;
    all->insert(all->end(), own->begin(), own->end());
  }
  return all;
}

}  // namespace tapeformer::models
