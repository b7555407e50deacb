// SPDX-License-Identifier: Apache-2.0
#include "framework/train/evaluator.h"

#include <algorithm>
#include <numeric>

#include "framework/nn/batch_norm.h"
#include "framework/train/kept_buffers.h"

namespace tapeformer::train {
namespace {

// Calls body(samples, batch) for consecutive batches of a part; false when it was cancelled.
bool for_each_batch(const data::Dataset& dataset, data::Part part, const EvaluationSettings& s,
                    const std::function<void(std::vector<data::Sample>&, const data::Batch&)>& body) {
  const int64_t n = dataset.size(part);
  std::vector<int64_t> indices;
  for (int64_t first = 0; first < n; first += s.batch_size) {
    if (s.cancelled && s.cancelled()) return false;
    indices.resize(static_cast<size_t>(std::min(s.batch_size, n - first)));
    std::iota(indices.begin(), indices.end(), first);
    std::vector<data::Sample> samples = data::read_samples(dataset, part, indices);
    body(samples, data::collate(dataset.description(), samples, {indices.begin(), indices.end()}));
  }
  return true;
}

// Row by row in double, so that the mean is the same for any size of batch.
void add_rows(MeanLoss& mean, const ops::Loss& loss) {
  if (loss.per_row.dtype() == Dtype::f32)
    for (const float row : loss.per_row.span<float>()) mean.add(static_cast<double>(row), 0);
  else
    for (const double row : loss.per_row.span<double>()) mean.add(row, 0);
  mean.add(0, loss.count);
}

}  // namespace

std::optional<double> Evaluation::value(std::string_view metric) const {
  for (const Metric& m : values)
    if (m.name == metric) return m.value;
  return std::nullopt;
}

std::optional<Evaluation> evaluate(nn::Model& model, const data::Dataset& dataset, data::Part part, const EvaluationSettings& s) {
  const data::Description& description = dataset.description();
  const bool regression = description.task == data::Task::regression;
  Evaluation out;
  if (regression) out.numbers.emplace(static_cast<int>(description.outputs()));
  else out.classes.emplace(static_cast<int>(description.outputs()), description.task == data::Task::tagging ? Scores::drop : Scores::keep);
  MeanLoss loss;
  nn::ModelState state;
  if (s.batchnorm == BatchNormSource::batch) model.visit(state);
  const UnchangedBuffers unchanged(state.buffers);  // none where the statistics are only read
  const Mode mode = s.batchnorm == BatchNormSource::batch ? Mode::calibrate : Mode::evaluate;
  const bool whole = for_each_batch(dataset, part, s, [&](std::vector<data::Sample>& samples, const data::Batch& batch) {
    Context context{.on = s.on, .tape = nullptr, .mode = mode, .step = static_cast<uint32_t>(s.step), .dtype = s.dtype};
    const Variable output = model.forward(context, batch);
    const ops::Loss sum = model.loss(context, output, batch);
    add_rows(loss, sum);
    if (regression) out.numbers->add(output.value, batch.targets);
    else out.classes->add(output.value, batch.targets);
    if (s.each_batch) s.each_batch(samples, batch, output.value);
    ++out.batches;
    out.samples += batch.packing.sequences();
    out.tokens += batch.packing.rows();
  });
  if (!whole) return std::nullopt;
  out.values = regression ? out.numbers->values() : out.classes->values();
  out.values.insert(out.values.begin(), {"loss", loss.mean()});
  return out;
}

int64_t recalibrate(nn::Model& model, const data::Dataset& dataset, const EvaluationSettings& s) {
  nn::ModelState state;
  model.visit(state);
  for (const auto& [layer, facts] : state.layers)
    for (const nn::Buffer* b : state.buffers)  // the first batch of a calibration replaces what is there
      if (b->name.starts_with(layer + ".") && !nn::is_frozen(facts, s.step)) b->value.fill_zero();
  int64_t batches = 0;
  for_each_batch(dataset, data::Part::train, s, [&](const std::vector<data::Sample>&, const data::Batch& batch) {
    Context context{.on = s.on, .tape = nullptr, .mode = Mode::calibrate, .step = static_cast<uint32_t>(s.step), .dtype = s.dtype};
    model.forward(context, batch);
    ++batches;
  });
  return batches;
}

}  // namespace tapeformer::train
