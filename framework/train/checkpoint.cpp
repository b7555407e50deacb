// SPDX-License-Identifier: Apache-2.0
#include "framework/train/checkpoint.h"

#include <fmt/format.h>

#include <fnmatch.h>

#include <algorithm>
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

constexpr std::string_view feature_statistics = "/buffers/standardize.";
constexpr const char* unplanned = "unplanned";  // not in files of before there was a rollback that passes over them, nor in planned ones

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
  bool in_file(const std::string& name) const { return file_.tensors.contains(group_ + name); }
  // What find() asked for in vain.
  const std::vector<std::string>& not_found() const { return lines_; }
  // Tensors of the file that nobody asked for. The feature statistics belong to the data description, not to the model.
  std::vector<std::string> left_in_file() const {
    std::vector<std::string> lines;
    for (auto at = file_.tensors.lower_bound(group_); at != file_.tensors.end() && at->first.starts_with(group_); ++at)
      if (!used_.contains(at->first) && !at->first.starts_with(feature_statistics))
        lines.push_back(fmt::format("only in the file: {} {}", at->first, at->second.shape().text()));
    return lines;
  }
  // Appends all of both.
  void add_to(std::vector<std::string>& lines) const {
    lines.insert(lines.end(), lines_.begin(), lines_.end());
    for (std::string& line : left_in_file()) lines.push_back(std::move(line));
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

void copy_all(const std::vector<Copy>& copies) {
  for (const Copy& c : copies) c.to.copy_from(*c.from);
}

void refuse(const std::string& file, const std::vector<std::string>& differences) {
  if (differences.empty()) return;
  const size_t shown = std::min<size_t>(differences.size(), 20);
  fail(ExitCode::checkpoint, "{}: does not fit the model, {} difference{}:\n  {}{}", printable(file), differences.size(),
       differences.size() == 1 ? "" : "s", fmt::join(differences.begin(), differences.begin() + static_cast<std::ptrdiff_t>(shown), "\n  "),
       differences.size() > shown ? fmt::format("\n  and {} more", differences.size() - shown) : "");
}

// What was not trained has no average.
bool has_average(const io::Checkpoint& file, const std::string& parameter) {
  return attribute_or(file, "/model/" + parameter, "trainable", true);
}

// Everything is compared before anything is copied.
void restore_model_tensors(const io::Checkpoint& file, const std::string& name, nn::ModelState& model, const std::string& parameter_group) {
  Differences parameters(file, parameter_group), untrained(file, "/model/"), buffers(file, "/buffers/");
  std::vector<Copy> copies;
  for (const Parameter* p : model.parameters) {
    const bool as_it_was = parameter_group == "/ema/" && !has_average(file, p->name);
    copies.push_back({(as_it_was ? untrained : parameters).find(p->name, p->value), p->value});
  }
  for (const nn::Buffer* b : model.buffers) copies.push_back({buffers.find(b->name, b->value), b->value});
  std::vector<std::string> differences = untrained.not_found();
  parameters.add_to(differences);
  buffers.add_to(differences);
  refuse(name, differences);
  copy_all(copies);
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
  RunState::Sums sums{.loss = number("_loss"),
                      .count = number("_count"),
                      .correct = number("_correct"),
                      .targets = number("_targets"),
                      .samples = whole("_samples"),
                      .tokens = whole("_tokens")};
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
  s.planned = is_planned(c);
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
  if (!s.planned) control[unplanned] = true;
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
    slots.add_to(differences);
  }
  const bool averaged = run.averaging->on() && has_averages(c);
  if (averaged) {
    run.averaging->prepare(run.model->parameters);
    Differences averages(c, "/ema/");
    run.averaging->visit([&](const std::string& name, Tensor& t) { copies.push_back({averages.find(name, t), t}); });
    averages.add_to(differences);
  }
  refuse(file, differences);
  restore_model(c, file, *run.model, Weights::raw);
  copy_all(copies);
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
  restore_model_tensors(c, file, model, weights == Weights::averaged ? "/ema/" : "/model/");
}

namespace {

// Parameters that `wanted` accepts and that are copies of taken ones, unless taken themselves. Returns how many.
template <class Wanted>
int64_t copy_taken(const nn::ModelState& model, const std::set<std::string>& taken, const Wanted& wanted) {
  int64_t copied = 0;
  for (const Parameter* p : model.parameters) {
    if (taken.contains(p->name) || !taken.contains(p->copy_of.name) || !wanted(p->name)) continue;
    const auto original =
        std::find_if(model.parameters.begin(), model.parameters.end(), [&](const Parameter* o) { return o->name == p->copy_of.name; });
    p->value.copy_from((*original)->value.rows(p->copy_of.first_row, p->value.shape()[0]));
    ++copied;
  }
  return copied;
}

}  // namespace

TakeCounts initialise_from(const io::Checkpoint& c, const std::string& file, nn::ModelState& model, const std::string& pattern) {
  TakeCounts counts;
  Differences parameters(c, "/model/"), buffers(c, "/buffers/");
  std::vector<Copy> copies;
  std::set<std::string> taken;
  const auto wanted = [&](const std::string& name) { return pattern.empty() || fnmatch(pattern.c_str(), name.c_str(), 0) == 0; };
  // What the file lacks stays as it is where a pattern chose what to take, or where it can be a copy.
  const auto take = [&](Differences& group, const std::string& name, const Tensor& to, bool may_lack) {
    const bool asked = wanted(name) && (!may_lack || group.in_file(name));
    if (const Tensor* from = asked ? group.find(name, to) : nullptr) copies.push_back({from, to}), taken.insert(name);
    else ++counts.left_as_initialised;
  };
  for (const Parameter* p : model.parameters) take(parameters, p->name, p->value, !pattern.empty() || !p->copy_of.name.empty());
  for (const nn::Buffer* b : model.buffers) take(buffers, b->name, b->value, !pattern.empty());
  std::vector<std::string> differences;
  for (const Differences* group : {&parameters, &buffers}) {
    counts.left_in_file += static_cast<int64_t>(group->left_in_file().size());
    if (pattern.empty()) group->add_to(differences);
    else differences.insert(differences.end(), group->not_found().begin(), group->not_found().end());
  }
  refuse(file, differences);
  if (copies.empty())
    fail(ExitCode::checkpoint, "{}: nothing matches '{}'; `tapeformer inspect` lists the names", printable(file), printable(pattern));
  copy_all(copies);
  counts.copied = copy_taken(model, taken, wanted);
  counts.left_as_initialised -= counts.copied;
  counts.names = std::move(taken);
  return counts;
}

const std::string& text_of(const io::Checkpoint& c, const std::string& file, const std::string& name) {
  const auto text = c.texts.find(name);
  if (text == c.texts.end()) fail(ExitCode::checkpoint, "{}: {} is missing; the file was written by something else", printable(file), name);
  return text->second;
}

data::Description description_of(const io::Checkpoint& c, const std::string& file) {
  return data::description_from_json(text_of(c, file, "/description_json"));
}

int64_t step_of(const io::Checkpoint& c) { return attribute<int64_t>(c, "checkpoint", "/", "step"); }

std::optional<uint64_t> seed_of(const io::Checkpoint& c) {
  const auto* seed = find_attribute<uint64_t>(c, "/data", "seed");
  return seed ? std::optional(*seed) : std::nullopt;
}

bool is_planned(const io::Checkpoint& c) { return !attribute_or(c, "/control", unplanned, false); }

}  // namespace tapeformer::train
