// SPDX-License-Identifier: Apache-2.0
// The moving average of parameters, one pass over all of them.
#include "framework/optim/averaging.h"

#include <algorithm>

#include "framework/kernels/launch.h"
#include "framework/kernels/optimizer_step.h"
#include "framework/optim/pieces.h"

namespace tapeformer::optim {
namespace {

std::vector<Parameter*> trainable(const std::vector<Parameter*>& parameters) {
  std::vector<Parameter*> kept;
  for (Parameter* p : parameters)
    if (p->trainable) kept.push_back(p);
  return kept;
}

template <class T>
void move_average(const Execution& on, double decay, const Piece& piece, const Tensor& value, const Tensor& average) {
  kernels::launch<kernels::MoveAverage, T>(on, decay, piece.count, static_cast<const T*>(value.span<T>().data() + piece.first),
                                           average.span<T>().data() + piece.first);
}

}  // namespace

AveragingSettings read_averaging_settings(config::Section averaging) {
  AveragingSettings s;
  averaging.field("decay", s.decay, config::from_below(0, 1),
                  "weight of the old average of the parameters at each update; 0 = no averaging");
  averaging.count("from", s.from, config::at_least(0), "updates before the averaging begins");
  if (s.decay == 0) averaging.unused("from", averaging.path("decay"));
  return s;
}

Tensor& Averaging::average_of(const Parameter& p) {
  const auto [place, added] = index_.try_emplace(p.name, averages_.size());
  if (added) averages_.push_back({p.name, p.value.clone()});
  Tensor& average = averages_[place->second].tensor;
  require(average.shape() == p.value.shape() && average.dtype() == p.value.dtype(), "the average of '{}' is {} {}, the parameter {} {}",
          p.name, name_of(average.dtype()), average.shape().text(), name_of(p.value.dtype()), p.value.shape().text());
  return average;
}

void Averaging::prepare(const std::vector<Parameter*>& parameters) {
  for (const Parameter* p : trainable(parameters)) average_of(*p);
}

void Averaging::clear() {
  averages_.clear();
  index_.clear();
}

void Averaging::update(const Execution& on, int64_t update, const std::vector<Parameter*>& parameters) {
  require(update >= 1, "updates are counted from 1, got {}", update);
  if (!this->on() || update <= settings_.from) return;
  const std::vector<Parameter*> averaged = trainable(parameters);
  const bool first = !started();
  std::vector<Tensor> averages;
  for (const Parameter* p : averaged) {
    require(first || index_.contains(p->name), "there is no average of '{}' at update {}, though others have one", p->name, update);
    averages.push_back(average_of(*p));
  }
  if (first) {
    for (size_t i = 0; i < averaged.size(); ++i) averages[i].copy_from(averaged[i]->value);
    return;
  }
  const std::vector<Piece> pieces = pieces_of(averaged);
  for_each_piece(on, pieces, [&](size_t i) {
    const size_t at = pieces[i].parameter;
    if (averages[at].dtype() == Dtype::f32) move_average<float>(on, settings_.decay, pieces[i], averaged[at]->value, averages[at]);
    else move_average<double>(on, settings_.decay, pieces[i], averaged[at]->value, averages[at]);
  });
}

void Averaging::swap(const std::vector<Parameter*>& parameters) {
  for (const Parameter* p : trainable(parameters)) {
    require(index_.contains(p->name), "there is no average of '{}' to exchange", p->name);
    require(p->value.contiguous(), "'{}' is not contiguous", p->name);
    const Tensor& average = average_of(*p);
    std::swap_ranges(average.raw(), average.raw() + average.bytes(), p->value.raw());
  }
}

void Averaging::visit(const std::function<void(const std::string&, Tensor&)>& visitor) {
  for (Average& a : averages_) visitor(a.parameter, a.tensor);
}

}  // namespace tapeformer::optim
