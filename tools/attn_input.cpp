// SPDX-License-Identifier: Apache-2.0
#include "tools/attn_input.h"

#include <filesystem>

#include "framework/core/random.h"
#include "framework/data/encoder.h"
#include "framework/io/text.h"
#include "tools/overrides.h"
#include "tools/predict_input.h"

namespace tapeformer::tools {
namespace {

bool is_config(const std::string& model) {
  const std::string extension = std::filesystem::path(model).extension().string();
  return (extension == ".yaml" || extension == ".yml") && !std::filesystem::is_directory(model);
}

Words sorted(const AttnInput& o) {
  Words out = sorted_words(o.words);
  if (!is_config(o.model)) check_overrides(out.overrides, "attn", sample_keys);
  const int given = o.text.has_value() + !out.file.empty() + (o.length > 0);
  if (given != 1) fail(ExitCode::usage, "attn needs one sequence: --text, a FILE, or --length for a random one");
  return out;
}

data::Sample drawn(const data::Description& d, int64_t length) {
  const Draw draw{random_key(1, "attn", "sample"), 0, 0};
  data::Sample sample;
  for (int64_t i = 0; i < length; ++i) {
    const auto row = static_cast<uint32_t>(i);
    if (d.vocab_size > 0) sample.tokens.push_back(static_cast<int32_t>(draw.word(row, 0) % static_cast<uint64_t>(d.vocab_size)));
    else
      for (uint32_t f = 0; f < d.features(); ++f) sample.values.push_back(static_cast<float>(draw.gaussian(row, f)));
  }
  return sample;
}

data::Sample read_sample(const AttnInput& o, const std::string& file, const AttnSubject& s, Log& log) {
  data::SampleEncoder encoder(s.description);
  data::Sample sample;
  if (o.text) {
    if (s.description.vocab_size == 0) fail(ExitCode::usage, "--text: the model reads sequences of numbers; give a FILE");
    if (s.description.task == data::Task::tagging) {
      const data::Tokenizer words({.kind = data::TokenizerKind::whitespace});
      encoder.encode_tokens(words.split(*o.text), "--text", sample);
    } else {
      encoder.encode_text(*o.text, "--text", sample);
    }
    return sample;
  }
  const InputSettings settings{.file = file, .kind = input_kind(o.input_kind, file)};
  const auto input = open_input(settings, s.experiment.data, s.description, encoder, log);
  InputSample next;
  for (int64_t i = 0; i < o.sample; ++i)
    if (!input->next(next)) fail(ExitCode::data, "{}: has {} samples, --sample asks for number {}", printable(file), i, o.sample);
  return next.sample;
}

// As it can be shown and stored: UTF-8 without control characters, \xc3 for a byte that is none alone.
std::string shown(const std::string& token) {
  if (!io::first_invalid_utf8(token)) return printable(token);
  std::string out;
  for (const char byte : token) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return out;
}

// A config's model as training would start it. Its data is read only where a text needs the vocabulary.
void from_config(const AttnInput& o, const Words& words, Command& command, AttnSubject& s) {
  std::vector<std::string> overrides = words.overrides;
  for (auto& flag : command.flag_overrides()) overrides.push_back(std::move(flag));
  config::Document document = config::Document::load(o.model, overrides);
  s.experiment = read_experiment(document, command.log);
  s.source = o.model;
  if (o.length > 0) s.description = assumed_description(s.experiment, {.length = o.length});
  else s.description = datasets::open_dataset(s.experiment.data, {.parts = {data::Part::train}})->description();
  s.threads = make_threads(s.experiment.train);
  s.on = {s.experiment.train.device, s.threads.get()};
  s.model = make_model(s.experiment, s.description, Use::look);
}

void from_run(const AttnInput& o, const Words& words, Command& command, AttnSubject& s) {
  std::vector<std::string> overrides = words.overrides;
  for (auto& flag : command.flag_overrides()) overrides.push_back(std::move(flag));
  Trained t = load_trained(o.model, "", overrides, command.log);
  s.source = t.file.string();
  s.experiment = std::move(t.experiment);
  s.description = std::move(t.description);
  s.threads = std::move(t.threads);
  s.on = t.on;
  s.model = std::move(t.model);
}

}  // namespace

AttnSubject attn_subject(const AttnInput& o, Command& command) {
  const Words words = sorted(o);
  AttnSubject s;
  if (is_config(o.model)) from_config(o, words, command, s);
  else from_run(o, words, command, s);
  if (o.length > s.description.max_length)
    fail(ExitCode::usage, "--length {} is above the {} rows that the model takes", o.length, s.description.max_length);
  const data::Sample sample = o.length > 0 ? drawn(s.description, o.length) : read_sample(o, words.file, s, command.log);
  if (o.length == 0 && s.description.vocab_size > 0) {
    const data::Tokenizer tokenizer = data::Tokenizer::from_json(s.description.tokenizer_json);
    for (const int32_t t : sample.tokens) s.tokens.push_back(shown(tokenizer.decode(t)));
  }
  s.batch = data::collate(s.description, {sample}, {0});
  if (s.batch.packing.rows() == 0) fail(ExitCode::data, "the sequence is empty");
  return s;
}

}  // namespace tapeformer::tools
