// SPDX-License-Identifier: Apache-2.0
// Writes any data set in the layout "seq-dataset" 1.
#include <fmt/format.h>

#include <limits>
#include <vector>

#include "datasets/seq_dataset.h"
#include "framework/core/error.h"
#include "framework/core/host.h"
#include "framework/core/version.h"
#include "framework/io/durable_file.h"
#include "framework/io/hdf5.h"

namespace tapeformer::datasets {
namespace {

using data::Part;
using data::Task;

// Values as the file they came from had them: not standardised, missing ones as NaN, without the flags.
void append_raw(const data::Description& d, const std::vector<float>& values, std::vector<float>& out) {
  const bool flags = d.missing == data::Missing::zero_with_flag;
  const auto all = static_cast<size_t>(d.features()), raw = flags ? all / 2 : all;
  const double* mean = d.feature_mean.defined() ? d.feature_mean.data<double>() : nullptr;
  for (size_t row = 0; row < values.size(); row += all)
    for (size_t f = 0; f < raw; ++f) {
      const float x = values[row + f];
      if (flags && values[row + raw + f] != 0) out.push_back(std::numeric_limits<float>::quiet_NaN());
      else out.push_back(mean ? static_cast<float>(x * d.feature_deviation.data<double>()[f] + mean[f]) : x);
    }
}

struct Columns {
  std::vector<int32_t> tokens, labels;
  std::vector<float> values, targets, weights;
  std::vector<int64_t> offsets{0};
  std::vector<std::string> ids;
};

Columns columns_of(const data::Dataset& dataset, Part part) {
  const data::Description& d = dataset.description();
  Columns c;
  data::Sample s;
  for (int64_t i = 0; i < dataset.size(part); ++i) {
    dataset.read(part, i, s);
    c.tokens.insert(c.tokens.end(), s.tokens.begin(), s.tokens.end());
    if (d.vocab_size == 0) append_raw(d, s.values, c.values);
    c.offsets.push_back(c.offsets.back() + dataset.length(part, i));
    if (d.task == Task::classification) c.labels.push_back(s.label);
    c.labels.insert(c.labels.end(), s.tags.begin(), s.tags.end());
    c.targets.insert(c.targets.end(), s.target.begin(), s.target.end());
    c.weights.push_back(s.weight);
    c.ids.push_back(s.id);
  }
  return c;
}

void write_part(io::Hdf5File& file, const data::Dataset& dataset, Part part, io::Hdf5File::Storage storage) {
  const data::Description& d = dataset.description();
  const std::string group = fmt::format("/{}/", name_of(part));
  const Columns c = columns_of(dataset, part);
  const auto put = [&](const char* name, const Tensor& tensor, const std::vector<std::string>& axes) {
    file.write(group + name, tensor, storage);
    file.write_axis_labels(group + name, axes);
  };
  if (d.vocab_size > 0) {
    put("input_ids", Tensor::of(c.tokens), {"token"});
  } else {
    const int64_t rows = c.offsets.back();
    put("values", Tensor::of(c.values).reshaped({rows, static_cast<int64_t>(c.values.size()) / rows}), {"row", "feature"});
  }
  put("offsets", Tensor::of(c.offsets), {"example"});
  if (d.task == Task::regression) put("labels", Tensor::of(c.targets).reshaped({dataset.size(part), d.outputs()}), {"example", "target"});
  else put("labels", Tensor::of(c.labels), {d.task == Task::classification ? "example" : d.vocab_size > 0 ? "token" : "row"});
  put("weights", Tensor::of(c.weights), {"example"});
  file.write_texts(group + "ids", c.ids);
  file.write_axis_labels(group + "ids", {"example"});
  file.write_attribute(fmt::format("/{}", name_of(part)), "num_examples", dataset.size(part));
}

std::vector<std::string> raw_feature_names(const data::Description& d) {
  std::vector<std::string> names = d.feature_names;
  if (d.missing == data::Missing::zero_with_flag) names.resize(names.size() / 2);
  return names;
}

}  // namespace

void convert_to_hdf5(const data::Dataset& dataset, const std::filesystem::path& path, bool compress) {
  const data::Description& d = dataset.description();
  io::Hdf5File file = io::Hdf5File::create_image(path.string());
  constexpr std::string_view tasks[] = {"classification", "regression", "tagging"};
  file.write_attribute("/", "encoding-type", std::string("seq-dataset"));
  file.write_attribute("/", "encoding-version", std::string("1.0"));
  file.write_attribute("/", "task", std::string(tasks[static_cast<int>(d.task)]));
  file.write_attribute("/", "creator", std::string("tapeformer " TAPEFORMER_VERSION));
  file.write_attribute("/", "created", creation_time());
  file.write_attribute("/", "source_fingerprint", d.fingerprint);
  file.write_attribute("/", "vocab_size", d.vocab_size);
  file.write_attribute("/", "max_length", d.max_length);
  const auto names = [&](const char* name, const std::vector<std::string>& texts, const char* axis) {
    file.write_texts(name, texts);
    file.write_axis_labels(name, {axis});
  };
  if (d.task == Task::regression) names("/target_names", d.target_names, "target");
  else names("/label_names", d.labels, "class");
  if (d.vocab_size > 0) file.write_text("/tokenizer_json", d.tokenizer_json);
  else names("/feature_names", raw_feature_names(d), "feature");
  const auto storage = compress ? io::Hdf5File::Storage::deflated : io::Hdf5File::Storage::contiguous;
  for (const Part part : {Part::train, Part::valid, Part::test})
    if (dataset.size(part) > 0) write_part(file, dataset, part, storage);
  const std::string image = file.take_image();
  io::replace_file(path, {image});
}

}  // namespace tapeformer::datasets
