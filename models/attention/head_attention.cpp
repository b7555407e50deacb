// SPDX-License-Identifier: Apache-2.0
#include "models/attention/head_attention.h"

#include <algorithm>
#include <numbers>

#include "framework/ops/columns.h"
#include "framework/ops/dispatch.h"

namespace tapeformer::models {
namespace {

// Xavier with gain 1 / sqrt(2) on the projections (Ott et al. 2019, fairseq).
constexpr double projection_gain = 1 / std::numbers::sqrt2;

Parameter rows_of(const Parameter& whole, const std::string& name, int64_t first, int64_t count) {
  return {name, whole.value.rows(first, count), whole.gradient.rows(first, count), true};
}

// The values [n, heads * D] of every head become columns first .. first + D - 1 of the identity.
template <class T>
void set_identity(const View<T>& values, int64_t head_dim, int64_t first) {
  for (int64_t j = 0; j < values.rows; ++j)
    for (int64_t c = 0; c < values.columns; ++c) values.row(j)[c] = first + c % head_dim == j ? T{1} : T{0};
}

// Those columns of each head's weights [heads * n, n] from what the heads gave, [n, heads * D].
template <class T>
void take_columns(const View<T>& o, int64_t head_dim, int64_t first, const View<T>& weights) {
  for (int64_t i = 0; i < o.rows; ++i)
    for (int64_t c = 0; c < o.columns; ++c)
      if (const int64_t j = first + c % head_dim; j < o.rows) weights.row(c / head_dim * o.rows + i)[j] = o.row(i)[c];
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
      weight_(build.constant(name + ".projections.weight", {static_cast<int64_t>(parts_.size()) * s.dim, s.dim}, 0)),
      bias_(build.constant(name + ".projections.bias", {static_cast<int64_t>(parts_.size()) * s.dim}, 0)),
      groups_(std::move(groups)),
      output_(build, name + ".output", s.dim, s.dim) {
  for (size_t p = 0; p < parts_.size(); ++p) {
    const int64_t first = static_cast<int64_t>(p) * s.dim;
    weights_.push_back(rows_of(weight_, fmt::format("{}.{}.weight", name, parts_[p]), first, s.dim));
    biases_.push_back(rows_of(bias_, fmt::format("{}.{}.bias", name, parts_[p]), first, s.dim));
    weights_[p].value.copy_from(first_projection(build, name, parts_[p], s.dim));
  }
}

AttentionOutput HeadAttention::forward(Context& context, const Variable& x, const Packing& packing, const Sublayer& around) {
  weight_.trainable = std::any_of(weights_.begin(), weights_.end(), [](const Parameter& p) { return p.trainable; });
  LayerInput input(x, packing, around.norm);
  HeadOutput result = heads(context, input.project(context, weight_, &bias_), input);
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
    const auto project_rows = [&](Context& c, const Variable& rows) { return slice(c, ops::linear(c, rows, weight_, &bias_), *group); };
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
  const int64_t n = packing.rows(), d = head_dim();
  LayerInput input(x, packing, around.norm);
  const Tensor projected = input.project(context, weight_, &bias_).value.clone();
  const Tensor values = projected.columns(static_cast<int64_t>(parts_.size() - 1) * settings_.dim, settings_.dim);
  Tensor out(projected.dtype(), {settings_.heads * n, n});
  for (int64_t first = 0; first < n; first += d)
    ops::dispatch(projected.dtype(), [&]<class T>(T) {
      set_identity(values.matrix<T>(), d, first);
      take_columns(heads(context, {projected, no_node}, input, true).o.value.template matrix<T>(), d, first, out.matrix<T>());
    });
  return out;
}

const Heads& HeadAttention::group_of(int head) const {
  for (const auto& group : groups_)
    if (head < group->settings().first_head + group->settings().heads) return *group;
  fail(ExitCode::internal, "{} has no head {}", name_, head);
}

void HeadAttention::visit(nn::Visitor& visitor) {
  for (size_t p = 0; p < weights_.size(); ++p) {
    visitor.parameter(weights_[p]);
    visitor.parameter(biases_[p]);
  }
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
  all->emplace_back(weight_.value, bias_.value);
  for (const auto& group : groups_) {
    const InputReaders own = group->input_readers();
    if (!own) return std::nullopt;
    all->insert(all->end(), own->begin(), own->end());
  }
  return all;
}

}  // namespace tapeformer::models
