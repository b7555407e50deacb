// SPDX-License-Identifier: Apache-2.0
// `tapeformer model summary`: parameters, arithmetic and memory of a config's model at a batch and length, before any data is there.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "framework/optim/optimizer.h"
#include "tools/command.h"
#include "tools/experiment.h"
#include "tools/standard_output.h"

namespace tapeformer::tools {
namespace {

struct Options {
  std::vector<std::string> words;  // CONFIG and overrides
  int64_t batch = 0, length = 0, vocab = 0, classes = 0, features = 0;
  bool json = false;
};

struct Summary {
  data::Description data;
  int64_t batch = 0, length = 0;
  int64_t parameters = 0, trainable = 0, buffers = 0;  // elements
  int64_t parameter_bytes = 0, gradient_bytes = 0, slot_bytes = 0, buffer_bytes = 0;
  std::vector<nn::Cost> parts;
  nn::Cost total;
};

Summary summarise(const Experiment& e, const Options& o) {
  Summary s;
  s.data = assumed_description(e, {.length = o.length, .vocab = o.vocab, .classes = o.classes, .features = o.features});
  s.batch = o.batch > 0 ? o.batch : e.train.batch_size;
  s.length = o.length > 0 ? o.length : s.data.max_length;
  if (s.length > s.data.max_length) fail(ExitCode::usage, "--length {} is above data.max_length {}", s.length, s.data.max_length);
  const auto model = make_model(e, s.data);
  nn::ModelState state;
  model->visit(state);
  int64_t trained_bytes = 0;
  for (const Parameter* p : state.parameters) {
    s.parameters += p->value.count();
    s.parameter_bytes += static_cast<int64_t>(p->value.bytes());
    s.gradient_bytes += static_cast<int64_t>(p->value.bytes());  // made with the parameter, frozen or not
    if (!p->trainable) continue;
    s.trainable += p->value.count();
    trained_bytes += static_cast<int64_t>(p->value.bytes());
  }
  s.slot_bytes = trained_bytes * static_cast<int64_t>(optim::make_optimizer(e.train.optimizer)->slots().size());
  for (const nn::Buffer* b : state.buffers) {
    s.buffers += b->value.count();
    s.buffer_bytes += static_cast<int64_t>(b->value.bytes());
  }
  s.parts = model->cost(std::vector<int32_t>(static_cast<size_t>(s.batch), static_cast<int32_t>(s.length)));
  s.total.part = "total";
  for (const nn::Cost& c : s.parts) {
    s.total.parameters += c.parameters;
    s.total.forward_flops += c.forward_flops;
    s.total.backward_flops += c.backward_flops;
    s.total.saved_bytes += c.saved_bytes;
  }
  return s;
}

std::string with_unit(double value) {
  constexpr const char* units[] = {"", " k", " M", " G", " T", " P"};
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(units); ++unit) value /= 1000;
  return fmt::format("{:.4g}{}", value, units[unit]);
}

std::string text_of(const Summary& s) {
  std::vector<std::vector<std::string>> rows{{"part", "parameters", "forward FLOP", "backward FLOP", "kept for backward"}};
  const auto add = [&](const nn::Cost& c) {
    rows.push_back(
        {c.part, std::to_string(c.parameters), with_unit(c.forward_flops), with_unit(c.backward_flops), bytes_text(c.saved_bytes)});
  };
  for (const nn::Cost& c : s.parts) add(c);
  add(s.total);
  const std::string reads =
      s.data.vocab_size > 0 ? fmt::format("a vocabulary of {}", s.data.vocab_size) : fmt::format("{} features a row", s.data.features());
  return fmt::format(
      "batch {} x length {}, {}, {} outputs, at most {} rows a sequence\n\n{}\nparameters {} (trainable {}), {}; gradients {}; optimizer "
      "{}; buffers {}\n",
      s.batch, s.length, reads, s.data.outputs(), s.data.max_length, aligned(rows), s.parameters, s.trainable,
      bytes_text(static_cast<double>(s.parameter_bytes)), bytes_text(static_cast<double>(s.gradient_bytes)),
      bytes_text(static_cast<double>(s.slot_bytes)),
      s.buffers > 0 ? fmt::format("{}, {}", s.buffers, bytes_text(static_cast<double>(s.buffer_bytes))) : "none");
}

std::string json_of(const Summary& s) {
  using Json = nlohmann::ordered_json;
  const auto part = [](const nn::Cost& c) {
    return Json{{"part", c.part},
                {"parameters", c.parameters},
                {"forward_flops", c.forward_flops},
                {"backward_flops", c.backward_flops},
                {"saved_bytes", c.saved_bytes}};
  };
  Json json{{"batch", s.batch},
            {"length", s.length},
            {"max_length", s.data.max_length},
            {"vocab_size", s.data.vocab_size},
            {"features", s.data.features()},
            {"outputs", s.data.outputs()},
            {"parameters", s.parameters},
            {"trainable_parameters", s.trainable},
            {"parameter_bytes", s.parameter_bytes},
            {"gradient_bytes", s.gradient_bytes},
            {"optimizer_bytes", s.slot_bytes},
            {"buffer_bytes", s.buffer_bytes},
            {"parts", Json::array()},
            {"total", part(s.total)}};
  for (const nn::Cost& c : s.parts) json["parts"].push_back(part(c));
  return json.dump() + "\n";
}

ExitCode summary(Command& command, const Options& options) {
  std::vector<std::string> overrides(options.words.begin() + 1, options.words.end());
  for (auto& o : command.flag_overrides()) overrides.push_back(std::move(o));
  config::Document document = config::Document::load(options.words.at(0), overrides);
  document.allow_unavailable();
  const Experiment experiment = read_experiment(document, command.log);
  const Summary s = summarise(experiment, options);
  return print_result(options.json ? json_of(s) : text_of(s));
}

}  // namespace

void add_model(const Verb& program, Command& command) {
  auto options = std::make_shared<Options>();
  const Verb sub = program.verb("model", "What a config's model costs");
  sub.needs_verb();
  const Verb verb = sub.verb("summary", "Parameters, arithmetic and memory of a training step, without reading data");
  verb.option("CONFIG", options->words, "A config file, then overrides key.path=value (~key.path removes a key)").required();
  verb.option("--batch", options->batch, "Sequences of a step; train.batch_size unless given").range(1, 1 << 24);
  verb.option("--length", options->length, "Rows of a sequence; data.max_length or data.window.length unless given, or 128")
      .range(1, 1 << 24);
  verb.option("--vocab", options->vocab, "Tokens of the vocabulary; tokenizer.vocab_size unless given, or 32 (bytes: 256)")
      .range(1, 1 << 30);
  verb.option("--classes", options->classes, "Classes or tags; data.classes unless given, or 10").range(1, 1 << 24);
  verb.option("--features", options->features,
              "Numeric sequences (HDF5: makes them numeric): numbers in a row; as many as data.features names unless given, or 1")
      .range(1, 1 << 20);
  verb.flag("--json", options->json, "As one JSON object");
  verb.runs([&command, options] { return summary(command, *options); });
}

}  // namespace tapeformer::tools
