// SPDX-License-Identifier: Apache-2.0
#include "framework/train/checkpoint.h"

#include <fmt/format.h>

#include <fnmatch.h>

#include <cmath>
#include <set>

#include "framework/core/host.h"
#include "framework/core/log.h"
#include "framework/core/version.h"
#include "framework/data/description_json.h"
#include "framework/train/build_commit.h"

namespace tapeformer::train {
namespace {

template <class T>
const T* find_attribute(const io::Checkpoint& file, const std::string& path, const char* key) {
  const auto at = file.attributes.find(path);
  if (at == file.attributes.end()) return nullptr;
  const auto value = at->second.find(key);
  return value == at->second.end() ? nullptr : std::get_if<T>(&value->second);
}

template <class T>
T attribute_or(const io::Checkpoint& file, const std::string& path, const char* key, T otherwise) {
  const T* value = find_attribute<T>(file, path, key);
  return value ? *value : otherwise;
}

template <class T>
T attribute(const io::Checkpoint& file, const std::string& name, const std::string& path, const char* key) {
  if (const T* value = find_attribute<T>(file, path, key)) return *value;
  fail(ExitCode::checkpoint, "{}: the attribute '{}' of {} is missing; the file was written by something else", printable(name), key,
       printable(path));
}

// What differs between the tensors a run has and those a file holds below `group`.
class Differences {
 public:
  Differences(const io::Checkpoint& file, std::string group) : file_(file), group_(std::move(group)) {}
  // The tensor for `name`, or null with a line in the list.
  const Tensor* find(const std::string& name, const Tensor& like) {
    used_.insert(group_ + name);
    const auto at = file_.tensors.find(group_ + name);
    if (at == file_.tensors.end()) {
      lines_.push_back(fmt::format("missing in the file: {}{} {}", group_, name, like.shape().text()));
      return nullptr;
    }
    if (at->second.shape() != like.shape() || at->second.dtype() != like.dtype()) {
      lines_.push_back(fmt::format("{}{}: {} {} in the file, {} {} in the model", group_, name, name_of(at->second.dtype()),
                                   at->second.shape().text(), name_of(like.dtype()), like.shape().text()));
      return nullptr;
    }
    return &at->second;
  }
  std::vector<std::string> all() {
    for (auto at = file_.tensors.lower_bound(group_); at != file_.tensors.end() && at->first.starts_with(group_); ++at)
      if (!used_.contains(at->first)) lines_.push_back(fmt::format("only in the file: {} {}", at->first, at->second.shape().text()));
    return lines_;
  }

 private:
  const io::Checkpoint& file_;
  std::string group_;
  std::set<std::string> used_;
  std::vector<std::string> lines_;
};

struct Copy {
  const Tensor* from;
  Tensor to;
};

void refuse(const std::string& file, const std::vector<std::string>& differences) {
  if (differences.empty()) return;
  const size_t shown = std::min<size_t>(differences.size(), 20);
  fail(ExitCode::checkpoint, "{}: does not fit the model, {} difference{}:\n  {}{}", printable(file), differences.size(),
       differences.size() == 1 ? "" : "s", fmt::join(differences.begin(), differences.begin() + static_cast<std::ptrdiff_t>(shown), "\n  "),
       differences.size() > shown ? fmt::format("\n  and {} more", differences.size() - shown) : "");
}

// Everything is compared before anything is copied.
void restore_model_tensors(const io::Checkpoint& file, const std::string& name, nn::ModelState& model, const std::string& parameter_group) {
  Differences parameters(file, parameter_group), buffers(file, "/buffers/");
  std::vector<Copy> copies;
  for (const Parameter* p : model.parameters) copies.push_back({parameters.find(p->name, p->value), p->value});
  for (const nn::Buffer* b : model.buffers) copies.push_back({buffers.find(b->name, b->value), b->value});
  std::vector<std::string> differences = parameters.all();
  for (auto& line : buffers.all()) differences.push_back(std::move(line));
  refuse(name, differences);
  for (const Copy& c : copies) c.to.copy_from(*c.from);
}

void put_sums(std::map<std::string, io::Attribute>& to, const std::string& prefix, const RunState::Sums& s) {
  to[prefix + "_loss"] = s.loss;
  to[prefix + "_count"] = s.count;
  to[prefix + "_correct"] = s.correct;
  to[prefix + "_targets"] = s.targets;
  to[prefix + "_samples"] = s.samples;
  to[prefix + "_tokens"] = s.tokens;
  if (s.auxiliary != 0) to[prefix + "_auxiliary"] = s.auxiliary;
}

RunState::Sums get_sums(const io::Checkpoint& c, const std::string& file, const std::string& prefix) {
  const auto number = [&](const char* key) { return attribute<double>(c, file, "/control", (prefix + key).c_str()); };
  const auto whole = [&](const char* key) { return attribute<int64_t>(c, file, "/control", (prefix + key).c_str()); };
  const auto& control = c.attributes.at("/control");  // attribute() has found it
  RunState::Sums sums{.loss = number("_loss"),       .count = number("_count"),     .correct = number("_correct"),
                      .targets = number("_targets"), .samples = whole("_samples"), .tokens = whole("_tokens")};
  if (control.contains(prefix + "_auxiliary")) sums.auxiliary = number("_auxiliary");
  return sums;
}

}  // namespace

RunState state_of(const io::Checkpoint& c, const std::string& file) {
  RunState s;
  s.step = attribute<int64_t>(c, file, "/", "step");
  s.samples_seen = attribute<int64_t>(c, file, "/", "samples_seen");
  s.tokens_seen = attribute<int64_t>(c, file, "/", "tokens_seen");
  s.seconds = attribute<double>(c, file, "/", "seconds");
  s.position = {attribute<int64_t>(c, file, "/data", "epoch"), attribute<int64_t>(c, file, "/data", "cursor")};
  s.window = get_sums(c, file, "window");
  s.epoch = get_sums(c, file, "epoch");
  const auto number = [&](const char* key) { return attribute<double>(c, file, "/control", key); };
  const auto whole = [&](const char* key) { return attribute<int64_t>(c, file, "/control", key); };
  s.gradient_norm = number("gradient_norm");
  s.best_value = number("best_value");
  s.best_step = whole("best_step");
  s.stopping_best = number("stopping_best");
  s.stopping_wait = whole("stopping_wait");
  s.stopped_early = attribute<bool>(c, file, "/control", "stopped_early");
  s.skips_in_a_row = whole("skips_in_a_row");
  s.skips = whole("skips");
  s.evaluated_step = whole("evaluated_step");
  s.rolled_back_to = attribute_or(c, "/control", "rolled_back_to", s.rolled_back_to);  // not in files of before there was a rollback
  return s;
}

io::Checkpoint to_checkpoint(const RunParts& run) {
  io::Checkpoint c;
  const RunState& s = *run.state;
  c.attributes["/"] = {{"encoding-type", std::string("tapeformer-checkpoint")},
                       {"encoding-version", std::string("1")},
                       {"creator", std::string("tapeformer")},
                       {"creator_version", std::string(TAPEFORMER_VERSION)},
                       {"git_commit", build_commit()},
                       {"created", creation_time()},
                       {"config_sha256", run.config_sha256},
                       {"precision", run.precision},
                       {"step", s.step},
                       {"epoch", s.position.epoch},
                       {"samples_seen", s.samples_seen},
                       {"tokens_seen", s.tokens_seen},
                       {"seconds", s.seconds},
                       {"data_fingerprint", run.description->fingerprint},
                       {"world_size", int64_t{1}}};
  for (const Parameter* p : run.model->parameters) {
    c.tensors["/model/" + p->name] = p->value;
    c.attributes["/model/" + p->name] = {{"trainable", p->trainable}};
  }
  for (const nn::Buffer* b : run.model->buffers) c.tensors["/buffers/" + b->name] = b->value;
  for (const auto& [layer, facts] : run.model->layers)
    for (const auto& [key, value] : facts)
      std::visit([&, &name = key](const auto& v) { c.attributes["/buffers/" + layer + ".running_mean"][name] = v; }, value);
  run.optimizer->visit(
      [&](const std::string& slot, const std::string& name, Tensor& t) { c.tensors["/optimizer/" + slot + "/" + name] = t; });
  c.attributes["/optimizer"] = {{"step", s.step}};
  if (run.averaging->started()) run.averaging->visit([&](const std::string& name, Tensor& t) { c.tensors["/ema/" + name] = t; });
  c.attributes["/scheduler"] = {{"update", s.step}};
  c.attributes["/data"] = {{"seed", run.seed}, {"epoch", s.position.epoch}, {"cursor", s.position.cursor}, {"order_version", int64_t{1}}};
  auto& control = c.attributes["/control"];
  control = {{"gradient_norm", s.gradient_norm},   {"best_value", s.best_value},
             {"best_step", s.best_step},           {"stopping_best", s.stopping_best},
             {"stopping_wait", s.stopping_wait},   {"stopped_early", s.stopped_early},
             {"skips_in_a_row", s.skips_in_a_row}, {"skips", s.skips},
             {"evaluated_step", s.evaluated_step}, {"rolled_back_to", s.rolled_back_to}};
  put_sums(control, "window", s.window);
  put_sums(control, "epoch", s.epoch);
  c.texts["/config/resolved_yaml"] = run.resolved_config;
  c.texts["/config/user_yaml"] = run.user_config;
  c.texts["/config/overrides"] = run.overrides;
  c.texts["/description_json"] = data::description_to_json(*run.description);
  if (!run.description->tokenizer_json.empty()) c.texts["/tokenizer_json"] = run.description->tokenizer_json;
  if (!run.description->labels.empty()) c.lists["/labels"] = run.description->labels;
  if (run.description->feature_mean.defined()) {
    c.tensors["/buffers/standardize.mean"] = run.description->feature_mean;
    c.tensors["/buffers/standardize.deviation"] = run.description->feature_deviation;
  }
  return c;
}

void restore_run(const io::Checkpoint& c, const std::string& file, const RunParts& run) {
  const RunState state = state_of(c, file);
  run.optimizer->prepare(run.model->parameters);
  std::vector<Copy> copies;
  std::vector<std::string> differences;
  for (const std::string& slot : run.optimizer->slots()) {
    Differences slots(c, "/optimizer/" + slot + "/");
    run.optimizer->visit([&](const std::string& s, const std::string& name, Tensor& t) {
      if (s == slot) copies.push_back({slots.find(name, t), t});
    });
    for (auto& line : slots.all()) differences.push_back(std::move(line));
  }
  const bool averaged = run.averaging->on() && has_averages(c);
  if (averaged) {
    run.averaging->prepare(run.model->parameters);
    Differences averages(c, "/ema/");
    run.averaging->visit([&](const std::string& name, Tensor& t) { copies.push_back({averages.find(name, t), t}); });
    for (auto& line : averages.all()) differences.push_back(std::move(line));
  }
  refuse(file, differences);
  restore_model(c, file, *run.model, Weights::raw);
  for (const Copy& copy : copies) copy.to.copy_from(*copy.from);
  if (!averaged) run.averaging->clear();  // a rollback may go to before there were any
  *run.state = state;
}

bool has_averages(const io::Checkpoint& c) {
  const auto at = c.tensors.lower_bound("/ema/");
  return at != c.tensors.end() && at->first.starts_with("/ema/");
}

void restore_model(const io::Checkpoint& c, const std::string& file, nn::ModelState& model, Weights weights) {
  if (weights == Weights::averaged && !has_averages(c))
    fail(ExitCode::checkpoint, "{}: holds no averaged weights; use --weights raw, or train with averaging.decay", printable(file));
  // The feature statistics belong to the data description, not to the model.
  io::Checkpoint shown = c;
  shown.tensors.erase("/buffers/standardize.mean");
  shown.tensors.erase("/buffers/standardize.deviation");
  restore_model_tensors(shown, file, model, weights == Weights::averaged ? "/ema/" : "/model/");
}

TakeCounts initialise_from(const io::Checkpoint& c, const std::string& file, nn::ModelState& model, const std::string& pattern) {
  TakeCounts counts;
  std::set<std::string> used;
  std::vector<std::string> differences;
  std::vector<Copy> copies;
  const auto take = [&](const std::string& group, const std::string& name, const Tensor& to) {
    if (!pattern.empty() && fnmatch(pattern.c_str(), name.c_str(), 0) != 0) {
      ++counts.left_as_initialised;
      return;
    }
    const auto at = c.tensors.find(group + name);
    if (at == c.tensors.end()) {
      if (pattern.empty()) differences.push_back("missing in the file: " + group + name);
      ++counts.left_as_initialised;
    } else if (at->second.shape() != to.shape() || at->second.dtype() != to.dtype()) {
      differences.push_back(
          fmt::format("{}{}: {} in the file, {} in the model", group, name, at->second.shape().text(), to.shape().text()));
    } else {
      used.insert(at->first);
      copies.push_back({&at->second, to});
    }
  };
  for (const Parameter* p : model.parameters) take("/model/", p->name, p->value);
  for (const nn::Buffer* b : model.buffers) take("/buffers/", b->name, b->value);
  for (const auto& [name, tensor] : c.tensors) {
    const bool ours = (name.starts_with("/model/") || name.starts_with("/buffers/")) && !name.starts_with("/buffers/standardize.");
    if (!ours || used.contains(name)) continue;
    ++counts.left_in_file;
    if (pattern.empty()) differences.push_back(fmt::format("only in the file: {} {}", name, tensor.shape().text()));
  }
  refuse(file, differences);
  if (copies.empty())
    fail(ExitCode::checkpoint, "{}: nothing matches '{}'; `tapeformer inspect` lists the names", printable(file), printable(pattern));
  for (const Copy& copy : copies) copy.to.copy_from(*copy.from);
  counts.taken = static_cast<int64_t>(copies.size());
  return counts;
}

data::Description description_of(const io::Checkpoint& c, const std::string& file) {
  const auto text = c.texts.find("/description_json");
  if (text == c.texts.end())
    fail(ExitCode::checkpoint, "{}: /description_json is missing; the file was written by something else", printable(file));
  return data::description_from_json(text->second);
}

int64_t step_of(const io::Checkpoint& c) { return attribute<int64_t>(c, "checkpoint", "/", "step"); }

}  // namespace tapeformer::train
