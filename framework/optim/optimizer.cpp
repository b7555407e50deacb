// SPDX-License-Identifier: Apache-2.0
// What all optimisers share: reading settings, slots by name, the walk over parameters, and the registry.
#include "framework/optim/optimizer.h"

#include "framework/optim/pieces.h"

namespace tapeformer::optim {

#define OPTIMIZER(name) std::unique_ptr<Optimizer> make_##name(const OptimizerSettings& settings);
#include "framework/optim/optimizers.def"
#undef OPTIMIZER

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSettings& settings) {
  switch (settings.type) {
#define OPTIMIZER(name)     \
  case OptimizerType::name: \
    return make_##name(settings);
#include "framework/optim/optimizers.def"
#undef OPTIMIZER
  }
  fail(ExitCode::internal, "there is no optimiser number {}", static_cast<int>(settings.type));
}

OptimizerSettings read_optimizer_settings(config::Section optim) {
  OptimizerSettings s;
  optim.choice("type", s.type,
               {
#define OPTIMIZER(name) {#name, OptimizerType::name},
#include "framework/optim/optimizers.def"
#undef OPTIMIZER
               },
               "how parameters follow their gradients: adamw (decay apart from the gradient), adam (decay inside it), sgd");
  optim.field("lr", s.rate, config::above(0), "learning rate at the peak of the schedule");
  std::vector<double> betas{s.beta1, s.beta2};
  optim.field("betas", betas, config::from_below(0, 1),
              "adam, adamw: the two weights of the old averages of gradient and squared gradient");
  if (betas.size() == 2) s.beta1 = betas[0], s.beta2 = betas[1];
  else
    optim.fault("betas", fmt::format("'{}' must be a list of two numbers, found {}", optim.path("betas"), betas.size()),
                "write for example betas: [0.9, 0.999]");
  optim.field("epsilon", s.epsilon, config::above(0), "adam, adamw: added to the root of the averaged squared gradient");
  optim.field("momentum", s.momentum, config::from_below(0, 1), "sgd: weight of the old direction; 0 = none");
  optim.field("weight_decay", s.weight_decay, config::at_least(0),
              "pull of the weights towards 0; acts on parameters with two axes or more");
  optim.field("decay_all", s.decay_all, "weight_decay acts on biases and on the scales and shifts of norms too");
  optim.field("clip_norm", s.clip_norm, config::at_least(0), "largest 2-norm of the gradient over all parameters; 0 = off");
  optim.field("clip_value", s.clip_value, config::at_least(0),
              "largest absolute value of an element of the gradient, after clip_norm; 0 = off");
  if (s.type == OptimizerType::sgd)
    for (const char* key : {"betas", "epsilon"}) optim.unused(key, optim.path("type"));
  else optim.unused("momentum", optim.path("type"));
  if (s.weight_decay == 0) optim.unused("decay_all", optim.path("weight_decay"));
  return s;
}

Optimizer::Optimizer(std::vector<std::string> slots, const OptimizerSettings& settings)
    : slots_(std::move(slots)), weight_decay_(settings.weight_decay), decay_all_(settings.decay_all) {
  require(slots_.size() <= std::tuple_size_v<decltype(Elements<float>::slots)>, "an optimiser with {} slots", slots_.size());
}

Optimizer::State& Optimizer::state_of(const Parameter& p) {
  const auto [place, added] = index_.try_emplace(p.name, states_.size());
  if (added) {
    states_.push_back({p.name, {}});
    for (size_t s = 0; s < slots_.size(); ++s) states_.back().slots.push_back(Tensor::zeros(p.value.dtype(), p.value.shape()));
  }
  State& state = states_[place->second];
  for (const Tensor& slot : state.slots)
    require(slot.shape() == p.value.shape() && slot.dtype() == p.value.dtype(), "optimiser state of '{}' is {} {}, the parameter {} {}",
            p.name, name_of(slot.dtype()), slot.shape().text(), name_of(p.value.dtype()), p.value.shape().text());
  return state;
}

void Optimizer::prepare(const std::vector<Parameter*>& parameters) {
  for (const Parameter* p : parameters)
    if (p->trainable) state_of(*p);
}

void Optimizer::visit(const SlotVisitor& visitor) {
  for (State& state : states_)
    for (size_t s = 0; s < slots_.size(); ++s) visitor(slots_[s], state.parameter, state.slots[s]);
}

void Optimizer::step(const Execution& on, int64_t update, double rate, double gradient_scale, double clip_value,
                     const std::vector<Parameter*>& parameters) {
  require(update >= 1, "updates are counted from 1, got {}", update);
  prepare(parameters);
  std::vector<Parameter*> moved[2];  // float, double
  for (Parameter* p : parameters) {
    if (!p->trainable || !p->gradient.defined()) continue;
    require(is_floating(p->value.dtype()) && p->gradient.dtype() == p->value.dtype() && p->gradient.shape() == p->value.shape(),
            "the gradient of '{}' is {} {}, the parameter {} {}", p->name, name_of(p->gradient.dtype()), p->gradient.shape().text(),
            name_of(p->value.dtype()), p->value.shape().text());
    moved[p->value.dtype() == Dtype::f64].push_back(p);
  }
  const Update settings{update, rate, 0, gradient_scale, clip_value};
  if (!moved[0].empty()) step_typed<float>(on, settings, moved[0]);
  if (!moved[1].empty()) step_typed<double>(on, settings, moved[1]);
}

template <class T>
void Optimizer::step_typed(const Execution& on, const Update& update, const std::vector<Parameter*>& parameters) {
  std::vector<Elements<T>> whole;
  for (const Parameter* p : parameters) {
    Elements<T> e{p->value.count(), p->gradient.template span<T>().data(), p->value.template span<T>().data(), {}};
    const State& state = state_of(*p);
    for (size_t s = 0; s < slots_.size(); ++s) e.slots[s] = state.slots[s].template data<T>();
    whole.push_back(e);
  }
  const std::vector<Piece> pieces = pieces_of(parameters);
  for_each_piece(on, pieces, [&](size_t i) {
    const Piece& piece = pieces[i];
    Elements<T> e = whole[piece.parameter];
    e.count = piece.count;
    e.gradient += piece.first;
    e.value += piece.first;
    for (size_t s = 0; s < slots_.size(); ++s) e.slots[s] += piece.first;
    Update u = update;
    u.decay = decay_all_ || parameters[piece.parameter]->value.shape().rank() >= 2 ? weight_decay_ : 0;
    move(on, u, e);
  });
}

}  // namespace tapeformer::optim
