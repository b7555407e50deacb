// SPDX-License-Identifier: Apache-2.0
#include "tools/one_row.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "framework/nn/batch_norm.h"
#include "framework/train/trainer.h"

namespace tapeformer::tools {
namespace {

bool uses_own_statistics(nn::Model& model, int64_t step) {
  nn::ModelState state;
  model.visit(state);
  return nn::batch_norms(state, step).own > 0;
}

std::optional<int64_t> sample_of_one_row(const data::Dataset& dataset) {
  for (int64_t i = 0; i < dataset.size(data::Part::train); ++i)
    if (dataset.length(data::Part::train, i) < 2) return i;
  return std::nullopt;
}

// By sizes: whichever sample a batch of one turns out to hold.
void refuse_batches_of_one_sample(const train::TrainSettings& s, const data::Dataset& dataset) {
  const int64_t samples = dataset.size(data::Part::train), batch = std::min(s.batch_size, samples);
  const auto smallest = [](int64_t all, int64_t piece) { return all % piece == 0 ? piece : all % piece; };
  for (const int64_t update : {batch, smallest(samples, batch)}) {
    if (smallest(update, s.micro_batch_size > 0 ? std::min(s.micro_batch_size, update) : update) > 1) continue;
    if (const auto sample = sample_of_one_row(dataset))
      fail(ExitCode::data,
           "batch_norm: {} samples in batches of {} leave a batch of one sample, and training sample {} has one row: it would have no "
           "variance; choose another train.batch_size or train.micro_batch_size, set model.norm.freeze, or use layer_norm",
           samples, s.batch_size, *sample + 1);
  }
}

// The first sample of one row that batches by tokens leave alone. How they fall changes from epoch to epoch, so those of the run are walked
// through; not all of a very long run.
std::optional<int64_t> alone_in_token_batches(const train::TrainSettings& s, const data::Dataset& dataset) {
  constexpr int64_t most = int64_t{1} << 22;  // samples; about a second
  if (!sample_of_one_row(dataset)) return std::nullopt;
  data::Sampler sampler = train::make_sampler(s, dataset);
  const double epochs = s.shuffle ? s.duration.epochs.value_or(std::numeric_limits<double>::infinity()) : 1;
  const int64_t updates = s.duration.updates.value_or(std::numeric_limits<int64_t>::max());
  int64_t looked_at = 0;
  for (int64_t u = 0; u < updates && looked_at < most && static_cast<double>(sampler.position().epoch) < epochs; ++u) {
    const std::vector<int64_t> update = sampler.next();
    const size_t piece = s.micro_batch_size > 0 ? static_cast<size_t>(s.micro_batch_size) : update.size();
    for (size_t i = 0; i < update.size(); i += piece)
      if (std::min(piece, update.size() - i) == 1 && dataset.length(data::Part::train, update[i]) < 2) return update[i];
    looked_at += static_cast<int64_t>(update.size());
  }
  return std::nullopt;
}

std::string name_of(const data::Dataset& dataset, data::Part part, int64_t sample) {
  data::Sample s;
  dataset.read(part, sample, s);
  return printable(s.id);
}

}  // namespace

void refuse_passes_over_one_row(nn::Model& model, const data::Dataset& dataset, data::Part part, int64_t step, int64_t batch_size,
                                std::string_view instead) {
  const int64_t samples = dataset.size(part);
  if (!uses_own_statistics(model, step) || samples == 0) return;
  // Only the last batch may be smaller than the others.
  for (int64_t i = batch_size == 1 ? 0 : samples - 1; i < samples; ++i)
    if ((batch_size == 1 || samples % batch_size == 1) && dataset.length(part, i) < 2)
      fail(ExitCode::data,
           "batch_norm: {} samples of the {} part in batches of {} leave sample {} alone, which has one row: it would have no variance; {}",
           samples, data::name_of(part), batch_size, name_of(dataset, part, i), instead);
}

void refuse_training_on_one_row(const Experiment& e, nn::Model& model, const data::Dataset& dataset) {
  const train::TrainSettings& s = e.train;
  if (!uses_own_statistics(model, 0)) return;
  if (s.batch_tokens == 0) {
    refuse_batches_of_one_sample(s, dataset);
  } else if (const auto sample = alone_in_token_batches(s, dataset)) {
    fail(ExitCode::data,
         "batch_norm: train.batch_tokens: {} leaves sample {} of the train part alone in a batch, and it has one row: it would have no "
         "variance; choose another train.batch_tokens or train.micro_batch_size, set model.norm.freeze, or use layer_norm",
         s.batch_tokens, name_of(dataset, data::Part::train, *sample));
  }
  if (s.eval_batchnorm == train::BatchNormSource::batch)
    refuse_passes_over_one_row(model, dataset, data::Part::valid, 0, s.eval_batch_size > 0 ? s.eval_batch_size : s.batch_size,
                               "choose another eval.batch_size, set eval.batchnorm to running, or use layer_norm");
}

}  // namespace tapeformer::tools
