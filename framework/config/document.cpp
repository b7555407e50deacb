// SPDX-License-Identifier: Apache-2.0
// Loading and the end of reading.
#include "framework/config/document.h"

#include "framework/config/merge.h"
#include "framework/config/parse.h"
#include "framework/config/state.h"

namespace tapeformer::config {
namespace {

[[noreturn]] void throw_report(const Report& report) { throw ReportError(report.code(), report.text()); }

// Syntax faults end here, since every key would look missing; faults of single keys wait for finish().
void complete(DocumentState& state, std::optional<Node> tree, const std::string& name, const std::vector<std::string>& overrides) {
  state.source = std::make_shared<const Source>(Source{name, {}, {}});
  if (!tree) throw_report(state.report);
  state.tree = std::move(*tree);
  apply_overrides(state.tree, overrides, state.report, state.removed);
  state.root = std::make_shared<SectionState>();
  state.root->document = &state;
  state.root->node = &state.tree;
}

}  // namespace

Document Document::load(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  auto state = std::make_shared<DocumentState>();
  std::optional<Node> tree = BaseLoader(state->report).load_file(file, nullptr, state->user_text);
  complete(*state, std::move(tree), file.string(), overrides);
  return Document(std::move(state));
}

Document Document::from_text(std::string text, std::string name, const std::vector<std::string>& overrides) {
  auto state = std::make_shared<DocumentState>();
  std::optional<Node> tree = BaseLoader(state->report).load(text, name, std::filesystem::path(name).parent_path());
  state->user_text = std::move(text);
  complete(*state, std::move(tree), name, overrides);
  return Document(std::move(state));
}

Document Document::from_checkpoint(std::string text, std::string name, const std::vector<std::string>& overrides) {
  Document out = from_text(std::move(text), std::move(name), overrides);
  out.state_->stored = true;
  return out;
}

Document Document::empty() {
  auto state = std::make_shared<DocumentState>();
  Node nothing;
  nothing.kind = Node::Kind::map;
  complete(*state, std::move(nothing), "defaults", {});
  return Document(std::move(state));
}

Section Document::root() { return Section(state_->root); }
void Document::allow_unavailable() { state_->unavailable_allowed = true; }

std::vector<std::string> Document::finish() {
  report_unknown_keys(*state_);
  if (state_->report.faulty()) throw_report(state_->report);
  return state_->report.warnings();
}

bool Document::faulty() const { return state_->report.faulty(); }
bool Document::meaningless() const { return state_->meaningless; }
const std::string& Document::user_text() const { return state_->user_text; }

std::optional<std::filesystem::path> base_of(const std::filesystem::path& file) {
  std::string bytes, why;
  if (!read_bytes(file, bytes, why)) return {};
  Report report;
  const auto root = parse(std::make_shared<const Source>(Source{file.string(), normalised(bytes), file.parent_path()}), report);
  if (!root || root->kind != Node::Kind::map) return {};
  const Entry* base = root->find("base");
  if (!base) return std::filesystem::path();
  return base_path(base->value, file.parent_path());
}

}  // namespace tapeformer::config
