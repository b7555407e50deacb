// SPDX-License-Identifier: Apache-2.0
// Builds a classifier from the text of a config and prints the logits of two sequences.
#include <cstdio>

#include "framework/config/document.h"
#include "framework/core/error.h"
#include "framework/core/parallel.h"
#include "framework/data/dataset.h"
#include "models/registry.h"

namespace tf = tapeformer;

namespace {

constexpr const char* config = R"(
model:
  dim: 16
  layers: 2
  feed_forward: {dim: 32}
  norm: {type: [layer_norm, batch_norm]}
  attention: {type: [full, local], heads: 2, local: {left: 2, right: 2}}
)";

tf::data::Sample sequence(std::vector<int32_t> tokens) {
  tf::data::Sample sample;
  sample.tokens = std::move(tokens);
  sample.label = 0;
  return sample;
}

void print_logits() {
  tf::config::Document document = tf::config::Document::from_text(config, "consumer.yaml", {});
  const tf::models::ModelSettings settings = tf::models::read_model_settings(document.root());
  document.finish();

  tf::data::Description description;
  description.labels = {"no", "maybe", "yes"};
  description.vocab_size = 10;
  description.max_length = 8;
  const auto model = tf::models::make_model({.seed = 1}, settings, description);

  tf::ThreadPool threads(2);
  tf::Context context{.on = {tf::Device::cpu, &threads}};
  const tf::data::Batch batch = tf::data::collate(description, {sequence({1, 2, 3}), sequence({4, 5, 6, 7, 8})}, {0, 1});
  const tf::Tensor logits = model->forward(context, batch).value;
  for (int64_t b = 0; b < logits.shape()[0]; ++b) {
    const float* row = logits.matrix<float>().row(b);
    std::printf("logits %.6f %.6f %.6f\n", row[0], row[1], row[2]);
  }
}

}  // namespace

int main() try {
  print_logits();
  return 0;
} catch (const tf::Error& e) {
  std::fprintf(stderr, "consumer: %s\n", e.what());
  return static_cast<int>(e.code());
}
