// SPDX-License-Identifier: Apache-2.0
#include "framework/train/update.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/core/finite.h"
#include "framework/core/log.h"
#include "framework/optim/clipping.h"
#include "framework/train/kept_buffers.h"
#include "framework/train/metrics.h"

namespace tapeformer::train {
namespace {

double scalar(const Tensor& t) { return t.dtype() == Dtype::f32 ? t.data<float>()[0] : t.data<double>()[0]; }

// The first buffer that is not finite, such as statistics that overflowed though what was computed with them is finite.
const nn::Buffer* nonfinite_buffer(const std::vector<nn::Buffer*>& buffers) {
  for (const nn::Buffer* b : buffers)
    if (!all_finite(b->value)) return b;
  return nullptr;
}

void clear_gradients(const std::vector<Parameter*>& parameters) {
  for (const Parameter* p : parameters) p->gradient.fill_zero();
}

// A pass over the parameters: FLOPs an element, and arrays of their size that it reads or writes.
Work work_of(const std::vector<Parameter*>& parameters, int flops, int arrays) {
  Work work;
  for (const Parameter* p : parameters) {
    work.flops += flops * static_cast<double>(p->value.count());
    work.bytes += arrays * static_cast<double>(p->value.bytes());
  }
  return work;
}

template <class F>
auto profiled(Profile* profile, std::string_view what, F&& body, const std::vector<Parameter*>& passed = {}, int flops = 0,
              int arrays = 0) {
  const ProfileScope scope(profile, what, Pass::other, profile ? work_of(passed, flops, arrays) : Work{});
  return body();
}

std::string first_few(const std::vector<std::string>& all) {
  const auto shown = static_cast<std::ptrdiff_t>(std::min<size_t>(all.size(), 8));
  return fmt::format("{}{}", fmt::join(all.begin(), all.begin() + shown, ", "),
                     all.size() > 8 ? fmt::format(" and {} more", all.size() - 8) : "");
}

// Places in the batch of the samples with a loss that is not finite; `per_row`: one number a sample, or one a row.
std::vector<int64_t> nonfinite_samples(const Tensor& per_row, const Packing& packing) {
  std::vector<int64_t> found;
  for (int64_t b = 0; b < packing.sequences(); ++b) {
    const auto& offsets = packing.offsets();
    const auto first = static_cast<int64_t>(offsets[static_cast<size_t>(b)]),
               last = static_cast<int64_t>(offsets[static_cast<size_t>(b) + 1]);
    const bool by_row = per_row.count() != packing.sequences();
    if (!all_finite(by_row ? per_row.rows(first, last - first) : per_row.rows(b, 1))) found.push_back(b);
  }
  return found;
}

}  // namespace

Updater::Updater(const TrainSettings& settings, nn::Model& model, const data::Dataset& dataset, const Execution& on)
    : settings_(settings),
      model_(model),
      dataset_(dataset),
      on_(on),
      optimizer_(optim::make_optimizer(settings.optimizer)),
      averaging_(settings.averaging) {
  model_.visit(state_);
  optimizer_->prepare(state_.parameters);  // a checkpoint holds its slots even when every update so far was skipped
}

// The samples of each micro-batch.
std::vector<std::vector<int64_t>> Updater::micro_batches(const std::vector<int64_t>& samples) const {
  const size_t micro = settings_.micro_batch_size > 0 ? static_cast<size_t>(settings_.micro_batch_size) : samples.size();
  std::vector<std::vector<int64_t>> out;
  for (size_t first = 0; first < samples.size(); first += micro)
    out.emplace_back(samples.begin() + static_cast<std::ptrdiff_t>(first),
                     samples.begin() + static_cast<std::ptrdiff_t>(std::min(samples.size(), first + micro)));
  return out;
}

GroupTotals Updater::totals(const std::vector<data::Batch>& batches) const {
  GroupTotals sum;
  for (const data::Batch& batch : batches) {
    sum.targets += model_.target_count(batch);
    sum.samples += batch.packing.sequences();
    sum.rows += batch.packing.rows();
  }
  return sum;
}

data::Batch Updater::read(const std::vector<int64_t>& samples) const {
  return profiled(profile_, "data", [&] { return data::read_batch(dataset_, data::Part::train, samples); });
}

void Updater::backward(int64_t step, const data::Batch& batch, const GroupTotals* group, UpdateResult& result) {
  Tape tape(on_, profile_);
  Context context{
      .on = on_, .tape = &tape, .mode = Mode::train, .seed = settings_.seed, .step = static_cast<uint32_t>(step), .dtype = settings_.dtype};
  context.group = group;
  context.profile = profile_;
  const Variable output = model_.forward(context, batch);
  const ops::Loss loss = model_.loss(context, output, batch);
  result.loss += scalar(loss.sum.value);
  result.count += loss.count;
  if (model_.has_auxiliary()) result.auxiliary = result.auxiliary.value_or(0) + loss.auxiliary;
  result.samples += batch.packing.sequences();
  result.tokens += batch.packing.rows();
  if (batch.targets.dtype() == Dtype::i32) {
    const ProfileScope scope(profile_, "accuracy");
    const Correct c = count_correct(output.value, batch.targets);
    result.correct += c.correct;
    result.targets += c.targets;
  }
  if (loss.sum.node != no_node) tape.backward(loss.sum);
}

UpdateResult Updater::update(int64_t step, int64_t total_updates, const std::vector<int64_t>& samples) {
  UpdateResult result;
  result.rate = optim::rate(settings_.schedule, settings_.optimizer.rate, step, total_updates);
  const KeptBuffers buffers(settings_.on_nonfinite == OnNonfinite::stop ? std::vector<nn::Buffer*>() : state_.buffers);
  profiled(
      profile_, "clear_gradients", [&] { clear_gradients(state_.parameters); }, state_.parameters, 0, 1);
  const std::vector<std::vector<int64_t>> batches = micro_batches(samples);
  if (batches.size() > 1 && model_.has_auxiliary()) {  // whose terms need to know the whole group beforehand
    std::vector<data::Batch> group;
    for (const auto& batch : batches) group.push_back(read(batch));
    const GroupTotals sum = totals(group);
    for (const data::Batch& batch : group) backward(step, batch, &sum, result);
  } else {
    for (const auto& batch : batches) backward(step, read(batch), nullptr, result);
  }
  const optim::GradientScale scale = profiled(
      profile_, "gradient_norm",
      [&] { return optim::gradient_scale(optim::gradient_norm(on_, state_.parameters), result.count, settings_.optimizer.clip_norm); },
      state_.parameters, 2, 1);
  result.gradient_norm = scale.norm;
  if (!std::isfinite(result.loss) || !std::isfinite(scale.norm) || nonfinite_buffer(state_.buffers)) {
    result.not_finite = diagnose(step, samples);
    buffers.put_back();
    return result;
  }
  // The gradient and the value, and each slot, read; all but the gradient written.
  const int slots = static_cast<int>(optimizer_->slots().size());
  profiled(
      profile_, "optimizer",
      [&] { optimizer_->step(on_, step, result.rate, scale.scale, settings_.optimizer.clip_value, state_.parameters); }, state_.parameters,
      3 + 6 * slots, 3 + 2 * slots);
  Context context{.on = on_, .mode = Mode::train, .seed = settings_.seed, .step = static_cast<uint32_t>(step), .dtype = settings_.dtype};
  profiled(profile_, "after_update", [&] {
    model_.after_update(context);
    averaging_.update(on_, step, state_.parameters);
  });
  return result;
}

// As the file names it, or its row there.
std::string Updater::name_of(int64_t sample) const {
  data::Sample s;
  dataset_.read(data::Part::train, sample, s);
  return printable(s.id);
}

// Repeats the forward passes of an update and looks at every layer's result: the first that is not finite, and the samples whose loss is
// not.
std::string Updater::diagnose(int64_t step, const std::vector<int64_t>& samples) {
  const std::vector<std::string> gradients = optim::nonfinite_gradients(state_.parameters);
  for (const Parameter* p : state_.parameters)
    if (!all_finite(p->value)) return fmt::format("update {}: the parameter {} is not finite", step, p->name);
  std::string tensor;
  std::vector<std::string> names;
  if (const nn::Buffer* bad = nonfinite_buffer(state_.buffers)) {
    for (const int64_t sample : samples) names.push_back(name_of(sample));
    return fmt::format("update {}: the first tensor that is not finite is {}; among the training samples {}", step, bad->name,
                       first_few(names));
  }
  const UnchangedBuffers unchanged(state_.buffers);
  for (const std::vector<int64_t>& micro : micro_batches(samples)) {
    const data::Batch batch = data::read_batch(dataset_, data::Part::train, micro);
    Context context{.on = on_, .mode = Mode::train, .seed = settings_.seed, .step = static_cast<uint32_t>(step), .dtype = settings_.dtype};
    context.inspect = [&](std::string_view name, const Tensor& t) {
      if (tensor.empty() && !all_finite(t)) tensor = name;
    };
    const Variable output = model_.forward(context, batch);
    const ops::Loss loss = model_.loss(context, output, batch);
    for (const int64_t sample : nonfinite_samples(loss.per_row, batch.packing))
      names.push_back(name_of(micro[static_cast<size_t>(sample)]));
  }
  std::string text = fmt::format("update {}: ", step);
  if (!tensor.empty()) text += fmt::format("the first tensor that is not finite is the output of {}", tensor);
  else if (!names.empty()) text += "the loss is not finite";
  else text += "the forward pass is finite, the gradient is not";
  if (!names.empty()) text += fmt::format("; training sample{} {}", names.size() == 1 ? "" : "s", first_few(names));
  if (!gradients.empty()) text += fmt::format("; gradients of {}", first_few(gradients));
  return text;
}

}  // namespace tapeformer::train
