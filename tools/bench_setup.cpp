// SPDX-License-Identifier: Apache-2.0
#include "tools/bench_setup.h"

#include <algorithm>
#include <fstream>

#include "framework/core/random.h"

namespace tapeformer::tools {
namespace {

// The steps are of random tokens with classes: another model than the config's is not measured in its place.
void check_measurable(const datasets::DataSettings& data) {
  constexpr const char* rest = "bench measures random tokens of a classification; measure a config of one, or override it";
  if (data.task != data::Task::classification)
    fail(ExitCode::usage, "'data.task: {}': {} with data.task=classification", name_of(data.task), rest);
  if (const std::string& key = data.numeric_key; !key.empty())
    fail(ExitCode::usage, "'{}' makes sequences of numbers: {} with ~{}", key, rest, key);
}

}  // namespace

void add_bench_sizes(const Verb& verb, BenchSizes& s) {
  verb.option("CONFIG", s.words, "A config file, then overrides key.path=value (~key.path removes a key)").required();
  verb.option("--batch", s.batch, "Samples of a step; by default train.batch_size").range(1, 1 << 24);
  verb.option("--length", s.length, "Rows of a sequence; by default data.max_length, else 128").range(1, 1 << 24);
  verb.option("--steps", s.steps, "Timed steps").range(1, 1 << 20);
  verb.option("--warmup", s.warmup, "Steps before them").range(0, 1 << 20);
  verb.option("--vocab", s.vocab, "Size of the vocabulary").range(1, 1 << 24);
  verb.option("--classes", s.classes, "Number of classes").range(1, 1 << 20);
  verb.flag("--ragged", s.ragged, "Lengths uniform in [length/4, length]");
  verb.option("--write-batches", s.write_batches, "Write the batches to this file: lengths, labels, tokens of each step as int32");
  verb.option("--save-start", s.save_start, "Write the parameters and buffers before the first step to this checkpoint");
  verb.flag("--profile", s.profile, "Where the time goes: each op's time, work, and share of what this machine gives (measured first)");
  verb.flag("--json", s.json, "Print JSON");
}

Experiment read_bench_experiment(Command& command, BenchSizes& s) {
  std::vector<std::string> overrides(s.words.begin() + 1, s.words.end());
  for (auto& flag : command.flag_overrides()) overrides.push_back(std::move(flag));
  config::Document document = config::Document::load(s.words[0], overrides);
  Experiment e = read_experiment(document, command.log);
  check_measurable(e.data);
  if (s.length == 0) s.length = e.data.max_length > 0 ? e.data.max_length : 128;
  if (s.batch == 0) s.batch = e.train.batch_size;
  return e;
}

RandomTokens::RandomTokens(const BenchSizes& sizes) : sizes_(sizes) {
  description_.vocab_size = sizes.vocab;
  description_.max_length = sizes.length;
  for (int64_t k = 0; k < sizes.classes; ++k) description_.labels.push_back(fmt::format("{}", k));
}

int32_t RandomTokens::length(data::Part, int64_t index) const {
  if (!sizes_.ragged) return static_cast<int32_t>(sizes_.length);
  const double u = Draw{random_key(1, "bench", "length"), static_cast<uint32_t>(index), 0}.uniform(0, 0);
  const int64_t shortest = std::max<int64_t>(1, sizes_.length / 4);
  return static_cast<int32_t>(shortest + static_cast<int64_t>(u * static_cast<double>(sizes_.length - shortest + 1)));
}

void RandomTokens::read(data::Part part, int64_t index, data::Sample& out) const {
  const Draw draw{random_key(1, "bench", "token"), static_cast<uint32_t>(index), 0};
  out = {};
  for (int32_t i = 0; i < length(part, index); ++i)
    out.tokens.push_back(static_cast<int32_t>(draw.word(static_cast<uint32_t>(i), 0) % static_cast<uint64_t>(sizes_.vocab)));
  out.label = static_cast<int32_t>(index % sizes_.classes);
}

void write_batches(const std::string& file, const RandomTokens& dataset, const BenchSizes& sizes) {
  std::ofstream out(file, std::ios::binary);
  const auto put = [&](const std::vector<int32_t>& v) {
    out.write(reinterpret_cast<const char*>(v.data()), static_cast<std::streamsize>(v.size() * sizeof(int32_t)));
  };
  data::Sample sample;
  for (int64_t s = 0; s < sizes.batches(); ++s) {
    std::vector<int32_t> lengths, labels, tokens;
    for (int64_t i = s * sizes.batch; i < (s + 1) * sizes.batch; ++i) {
      dataset.read(data::Part::train, i, sample);
      lengths.push_back(static_cast<int32_t>(sample.tokens.size()));
      labels.push_back(sample.label);
      tokens.insert(tokens.end(), sample.tokens.begin(), sample.tokens.end());
    }
    put(lengths);
    put(labels);
    put(tokens);
  }
  if (!out.flush()) fail(ExitCode::resource, "{}: cannot write", file);
}

void save_start(const std::string& file, const nn::ModelState& model) {
  io::Checkpoint checkpoint;
  for (const Parameter* p : model.parameters) checkpoint.tensors["/model/" + p->name] = p->value;
  for (const nn::Buffer* b : model.buffers) checkpoint.tensors["/buffers/" + b->name] = b->value;
  io::write_checkpoint(file, checkpoint);
}

}  // namespace tapeformer::tools
