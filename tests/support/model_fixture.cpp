// SPDX-License-Identifier: Apache-2.0
#include "tests/support/model_fixture.h"

#include "framework/core/random.h"

namespace tapeformer::test {

models::ModelSettings model_settings(const std::vector<std::string>& overrides) {
  const std::string text =
      "model: {dim: 8, layers: 2, dropout: 0.1, feed_forward: {dim: 12, dropout: 0.1}, attention: {heads: 2, local: {left: 3, right: "
      "2}}}\n";
  config::Document document = config::Document::from_text(text, "test.yaml", overrides);
  models::ModelSettings settings = models::read_model_settings(document.root());
  document.finish();
  return settings;
}

models::ModelSettings compare_settings(std::string_view variant, std::vector<std::string> overrides) {
  std::vector<std::string> all{"model.dim=8", "model.dropout=0.1", "model.feed_forward.dim=12", "model.feed_forward.dropout=0.1",
                               "model.attention.heads=2"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  config::Document document = config::Document::load(fmt::format("configs/listops/compare/{}.yaml", variant), all);
  models::ModelSettings settings = models::read_model_settings(document.root());
  require(!document.faulty(), "the model of configs/listops/compare/{}.yaml has faults", variant);
  return settings;
}

data::Description token_description(data::Task task) {
  data::Description d;
  d.task = task;
  d.vocab_size = 7;
  d.max_length = 300;
  if (task == data::Task::regression) d.target_names = {"a", "b"};
  else d.labels = {"x", "y", "z"};
  return d;
}

data::Batch token_batch(const data::Description& d, const std::vector<int32_t>& lengths, uint32_t first_id) {
  std::vector<data::Sample> samples;
  std::vector<uint32_t> ids;
  for (size_t b = 0; b < lengths.size(); ++b) {
    const uint32_t id = first_id + static_cast<uint32_t>(b);
    const Draw draw{random_key(3, "test", "batch"), id, 0};
    data::Sample s;
    for (int32_t i = 0; i < lengths[b]; ++i) {
      s.tokens.push_back(static_cast<int32_t>(draw.word(static_cast<uint32_t>(i), 0) % 7));
      if (d.task == data::Task::tagging)
        s.tags.push_back(i % 4 == 3 ? -100 : static_cast<int32_t>(draw.word(static_cast<uint32_t>(i), 1) % 3));
    }
    if (d.task == data::Task::classification) s.label = static_cast<int32_t>(id % 3);
    if (d.task == data::Task::regression) s.target = {static_cast<float>(draw.gaussian(0, 4)), static_cast<float>(draw.gaussian(0, 5))};
    samples.push_back(std::move(s));
    ids.push_back(id);
  }
  return data::collate(d, samples, ids);
}

}  // namespace tapeformer::test
