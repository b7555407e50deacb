// SPDX-License-Identifier: Apache-2.0
// Packs samples one behind the other into the arrays of a batch.
#include <algorithm>

#include "framework/core/error.h"
#include "framework/data/dataset.h"

namespace tapeformer::data {
namespace {

int64_t rows_of(const Description& d, const Sample& s) {
  return d.vocab_size > 0 ? static_cast<int64_t>(s.tokens.size()) : static_cast<int64_t>(s.values.size()) / d.features();
}

Packing packing_of(const Description& d, const std::vector<Sample>& samples, std::vector<uint32_t> sample_ids) {
  std::vector<int32_t> lengths;
  for (const Sample& s : samples) {
    require(d.vocab_size > 0 || s.values.size() % static_cast<size_t>(d.features()) == 0, "{} values for {} features", s.values.size(),
            d.features());
    lengths.push_back(static_cast<int32_t>(rows_of(d, s)));
  }
  return Packing(lengths, std::move(sample_ids));
}

// The member of all samples, one behind the other, as a tensor.
template <class T>
Tensor joined(const std::vector<Sample>& samples, std::vector<T> Sample::*member, Shape shape) {
  Tensor t(dtype_of<T>(), shape);
  T* out = t.data<T>();
  int64_t count = 0;
  for (const Sample& s : samples) count += static_cast<int64_t>((s.*member).size());
  require(count == shape.count(), "{} values for the shape {}", count, shape.text());
  for (const Sample& s : samples) out = std::copy((s.*member).begin(), (s.*member).end(), out);
  return t;
}

void check_tokens(const Tensor& tokens, int64_t vocab_size) {
  for (const int32_t token : tokens.span<int32_t>())
    require(token >= 0 && token < vocab_size, "the token {} in a vocabulary of {}", token, vocab_size);
}

Tensor labels_of(const std::vector<Sample>& samples, int64_t classes) {
  std::vector<int32_t> labels;
  for (const Sample& s : samples) {
    require(s.label >= 0 && s.label < classes, "the label {} of {} classes", s.label, classes);
    labels.push_back(s.label);
  }
  return Tensor::of(labels);
}

// Undefined when the first sample has none: samples to predict.
Tensor targets_of(const Description& d, const std::vector<Sample>& samples, int32_t rows) {
  const auto count = static_cast<int64_t>(samples.size());
  if (samples.empty()) return {};
  const Sample& first = samples.front();
  switch (d.task) {
    case Task::classification:
      return first.label < 0 ? Tensor() : labels_of(samples, d.outputs());
    case Task::regression:
      return first.target.empty() ? Tensor() : joined(samples, &Sample::target, {count, d.outputs()});
    case Task::tagging:
      return first.tags.empty() ? Tensor() : joined(samples, &Sample::tags, {rows});
  }
  return {};
}

Tensor weights_of(const std::vector<Sample>& samples) {
  if (std::all_of(samples.begin(), samples.end(), [](const Sample& s) { return s.weight == 1; })) return {};
  std::vector<float> weights;
  for (const Sample& s : samples) weights.push_back(s.weight);
  return Tensor::of(weights);
}

}  // namespace

Batch collate(const Description& d, const std::vector<Sample>& samples, std::vector<uint32_t> sample_ids) {
  require(d.vocab_size > 0 || d.features() > 0, "a description with neither a vocabulary nor features");
  Batch batch{packing_of(d, samples, std::move(sample_ids)), {}, {}, {}, {}};
  const int32_t rows = batch.packing.rows();
  if (d.vocab_size > 0) {
    batch.tokens = joined(samples, &Sample::tokens, {rows});
    check_tokens(batch.tokens, d.vocab_size);
  } else {
    batch.values = joined(samples, &Sample::values, {rows, d.features()});
  }
  batch.targets = targets_of(d, samples, rows);
  batch.weights = weights_of(samples);
  return batch;
}

std::vector<Sample> read_samples(const Dataset& dataset, Part part, const std::vector<int64_t>& indices) {
  std::vector<Sample> samples(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    require(indices[i] >= 0 && indices[i] < dataset.size(part), "sample {} of {} in {}", indices[i], dataset.size(part), name_of(part));
    dataset.read(part, indices[i], samples[i]);
  }
  return samples;
}

Batch read_batch(const Dataset& dataset, Part part, const std::vector<int64_t>& indices) {
  return collate(dataset.description(), read_samples(dataset, part, indices), {indices.begin(), indices.end()});
}

}  // namespace tapeformer::data
