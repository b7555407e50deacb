// SPDX-License-Identifier: Apache-2.0
#include "tools/data_convert.h"

#include "framework/core/version.h"
#include "framework/io/durable_file.h"
#include "framework/io/hdf5.h"

namespace tapeformer::tools {
namespace {

using data::Part, data::Task;

Tensor matrix_of(const std::vector<float>& values, int64_t columns) {
  const auto rows = static_cast<int64_t>(values.size()) / columns;
  return columns == 1 ? Tensor::of(values) : Tensor::of(std::span<const float>(values), {rows, columns});
}

void write_part(io::Hdf5File& file, const data::Dataset& dataset, Part part) {
  const data::Description& d = dataset.description();
  std::vector<int64_t> offsets{0};
  std::vector<int32_t> tokens, labels;
  std::vector<float> values, targets, weights;
  std::vector<std::string> ids;
  data::Sample s;
  for (int64_t i = 0; i < dataset.size(part); ++i) {
    dataset.read(part, i, s);
    offsets.push_back(offsets.back() + dataset.length(part, i));
    tokens.insert(tokens.end(), s.tokens.begin(), s.tokens.end());
    values.insert(values.end(), s.values.begin(), s.values.end());
    if (d.task == Task::classification) labels.push_back(s.label);
    labels.insert(labels.end(), s.tags.begin(), s.tags.end());
    targets.insert(targets.end(), s.target.begin(), s.target.end());
    weights.push_back(s.weight);
    ids.push_back(s.id);
  }
  const std::string group = "/" + std::string(name_of(part));
  file.write_group(group);
  file.write_attribute(group, "num_examples", dataset.size(part));
  file.write(group + "/offsets", Tensor::of(offsets));
  if (d.vocab_size > 0) file.write(group + "/input_ids", Tensor::of(tokens));
  else file.write(group + "/values", Tensor::of(std::span<const float>(values), {offsets.back(), d.features()}));
  if (d.task == Task::regression) file.write(group + "/labels", matrix_of(targets, d.outputs()));
  else file.write(group + "/labels", Tensor::of(labels));
  file.write(group + "/weights", Tensor::of(weights));
  file.write_texts(group + "/ids", ids);
}

}  // namespace

void convert_to_hdf5(const data::Dataset& dataset, const std::filesystem::path& name) {
  constexpr const char* tasks[] = {"classification", "regression", "tagging"};
  const data::Description& d = dataset.description();
  io::Hdf5File file = io::Hdf5File::create_image(name.string());
  const std::pair<const char*, io::Attribute> attributes[] = {{"encoding-type", std::string("seq-dataset")},
                                                              {"encoding-version", std::string("1.0")},
                                                              {"task", std::string(tasks[static_cast<size_t>(d.task)])},
                                                              {"creator", std::string("tapeformer " TAPEFORMER_VERSION)},
                                                              {"source_fingerprint", d.fingerprint},
                                                              {"vocab_size", d.vocab_size},
                                                              {"max_length", d.max_length}};
  for (const auto& [key, value] : attributes) file.write_attribute("/", key, value);
  if (!d.labels.empty()) file.write_texts("/label_names", d.labels);
  if (d.task == Task::regression) file.write_texts("/target_names", d.target_names);
  if (!d.feature_names.empty()) file.write_texts("/feature_names", d.feature_names);
  if (!d.tokenizer_json.empty()) file.write_text("/tokenizer_json", d.tokenizer_json);
  for (const Part part : {Part::train, Part::valid, Part::test})
    if (dataset.size(part) > 0) write_part(file, dataset, part);
  const std::string image = file.take_image();
  io::replace_file(name, {image});
}

}  // namespace tapeformer::tools
