// SPDX-License-Identifier: Apache-2.0
#include "framework/nn/batch_norm.h"

#include <cmath>

namespace tapeformer::nn {
namespace {

Buffer filled(std::string name, const Builder& build, int64_t n, double value) {
  return {std::move(name), build.constant("", {n}, value).value};
}

// Elements of a float or double vector as double.
double at(const Tensor& t, int64_t i) { return t.dtype() == Dtype::f32 ? t.data<float>()[i] : t.data<double>()[i]; }
void set(const Tensor& t, int64_t i, double value) {
  if (t.dtype() == Dtype::f32) t.data<float>()[i] = static_cast<float>(value);
  else t.data<double>()[i] = value;
}

template <class T>
void fold(View<T> w, T* b, const std::vector<double>& s, const std::vector<double>& t) {
  for (int64_t r = 0; r < w.rows; ++r) {
    double shift = static_cast<double>(b[r]);
    for (int64_t c = 0; c < w.columns; ++c) {
      shift += static_cast<double>(w.row(r)[c]) * t[static_cast<size_t>(c)];
      w.row(r)[c] = static_cast<T>(static_cast<double>(w.row(r)[c]) * s[static_cast<size_t>(c)]);
    }
    b[r] = static_cast<T>(shift);
  }
}

}  // namespace

BatchNorm::BatchNorm(const Builder& build, const std::string& layer, int64_t channels, const BatchNormSettings& s)
    : name(layer),
      weight(build.constant(layer + ".weight", {channels}, 1)),
      bias(build.constant(layer + ".bias", {channels}, 0)),
      running_mean(filled(layer + ".running_mean", build, channels, 0)),
      running_var(filled(layer + ".running_var", build, channels, 1)),
      num_batches_tracked{layer + ".num_batches_tracked", Tensor::zeros(Dtype::i64, {1})},
      settings(s) {}

Variable BatchNorm::forward(Context& context, const Variable& x) {
  const ops::NormParameters parameters{&weight, &bias, settings.epsilon};
  const bool batch = (context.mode == Mode::calibrate || context.mode == Mode::train) && !frozen(context.step);
  if (!batch || x.value.shape()[0] == 0) return ops::batch_norm_fixed(context, x, parameters, running_mean.value, running_var.value);
  const ops::BatchNormResult result = ops::batch_norm_batch(context, x, parameters);
  move_statistics(context.mode, x.value.shape()[0], result.mean, result.m2);
  return result.y;
}

// Training moves an exponential average; a calibration gives its batches equal weight.
void BatchNorm::move_statistics(Mode mode, int64_t rows, const Tensor& mean, const Tensor& m2) {
  int64_t& batches = num_batches_tracked.value.data<int64_t>()[0];
  ++batches;
  const double keep = mode == Mode::calibrate ? 1 - 1.0 / static_cast<double>(batches) : settings.momentum;
  for (int64_t c = 0; c < mean.count(); ++c) {
    set(running_mean.value, c, keep * at(running_mean.value, c) + (1 - keep) * at(mean, c));
    set(running_var.value, c, keep * at(running_var.value, c) + (1 - keep) * at(m2, c) / static_cast<double>(rows - 1));
  }
}

void BatchNorm::visit(Visitor& visitor) {
  visitor.parameter(weight);
  visitor.parameter(bias);
  visitor.buffer(running_mean);
  visitor.buffer(running_var);
  visitor.buffer(num_batches_tracked);
  visitor.facts(name, {{"momentum_convention", std::string("weight of the old value")},
                       {"momentum", settings.momentum},
                       {"running_var_estimator", std::string("unbiased")},
                       {"frozen", settings.freeze || running_mean.frozen},
                       {"freeze_from", settings.freeze_from}});
}

bool is_frozen(const LayerFacts& facts, int64_t step) {
  const auto from = std::get<int64_t>(facts.at("freeze_from"));
  return std::get<bool>(facts.at("frozen")) || (from > 0 && step >= from);
}

BatchNorms batch_norms(const ModelState& model, int64_t step) {
  BatchNorms out;
  for (const auto& [layer, facts] : model.layers) {
    ++out.all;
    out.own += !is_frozen(facts, step);
  }
  return out;
}

void BatchNorm::fold_into(const Tensor& w, const Tensor& b) const {
  const int64_t channels = weight.value.count();
  std::vector<double> s, t;
  for (int64_t c = 0; c < channels; ++c) {
    s.push_back(at(weight.value, c) / std::sqrt(at(running_var.value, c) + settings.epsilon));
    t.push_back(at(bias.value, c) - at(running_mean.value, c) * s.back());
  }
  if (w.dtype() == Dtype::f32) fold(w.matrix<float>(), b.data<float>(), s, t);
  else fold(w.matrix<double>(), b.data<double>(), s, t);
}

}  // namespace tapeformer::nn
