// SPDX-License-Identifier: Apache-2.0
// Builds the tree from yaml-cpp's events rather than from its nodes: events bring the place of every key, tell quoted from plain, and an
// exception from the handler ends a parse that goes too deep or too far.
#include "framework/config/parse.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <unordered_map>

#include "framework/config/coverage.h"
#include "framework/config/precheck.h"
#include "framework/config/print.h"
#include "framework/core/log.h"

namespace tapeformer::config {
namespace {

constexpr const char* indent_hint = "check the indentation: the keys of one section start in the same column";

struct Frame {
  Node node;
  YAML::anchor_t anchor = 0;
  bool has_key = false, quoted_key = false;
  size_t key_end = 0;  // offset
  std::string key;
  Place key_place;
  std::unordered_map<std::string, int> line_of_key;
};

class Builder : public YAML::EventHandler {
 public:
  Builder(const SourcePtr& source, Report& report) : source_(source), report_(report), coverage_(source) {}

  Node root;
  int documents = 0;

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents == 1) return;
    const bool marked = text().substr(0, offset(mark) + 3).rfind("\n---") != std::string_view::npos;
    if (marked)
      throw SyntaxFault{place(mark), "a second document starts here", "a config is one document: remove the '---' and what follows"};
    throw SyntaxFault{place(mark), "this does not belong to what stands above it", indent_hint};
  }
  void OnDocumentEnd() override {}
  void end() { coverage_.finish(); }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (!frames_.empty() && frames_.back().has_key) require_colon(frames_.back());
    Node node;
    node.place = place(mark);
    const size_t at = content(mark);
    if (!missing_value(mark)) node.text = null_word(at);
    if (!node.text.empty()) {
      check_indentation(mark);
      coverage_.word(at, node.text.size());
      if (expects_key()) frames_.back().key_end = at + node.text.size();
      node.place = place(mark, at, node.text.size());
    }
    scalar(std::move(node), anchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& value) override {
    check_indentation(mark);
    if (tag != "?" && tag != "!") refuse_tag(mark);
    Node node;
    const size_t at = content(mark);
    node.plain = tag == "?";
    const size_t past = coverage_.scalar(at, value, node.plain);
    const size_t end = std::min(past, text().substr(0, past).find('\n', at));
    if (expects_key()) frames_.back().key_end = past;
    node.text = value;
    node.place = place(mark, at, end - at);
    scalar(std::move(node), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (expects_key()) throw SyntaxFault{place(mark), "an alias can't be a key", {}};
    coverage_.word(offset(mark), std::min(text().find_first_of(" \t\n,]}", offset(mark)), text().size()) - offset(mark));
    const auto at = anchored_.find(anchor);
    if (at == anchored_.end()) throw SyntaxFault{place(mark), "an alias inside of what it stands for", "remove the alias"};
    Node node = at->second;
    if (depth_of(node) + static_cast<int>(frames_.size()) > depth_limit) throw too_deep(mark);
    count(size_of(node), mark);
    finish(std::move(node), 0);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open(Node::Kind::list, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open(Node::Kind::map, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  std::string_view text() const { return source_->text; }
  size_t offset(const YAML::Mark& mark) const { return std::min(static_cast<size_t>(std::max(mark.pos, 0)), text().size()); }
  Place place(const YAML::Mark& mark) const { return {source_, mark.line + 1, mark.column + 1, 1}; }
  // Of content that starts at `at`, after the mark's anchor. Counting from the mark keeps a long file linear.
  Place place(const YAML::Mark& mark, size_t at, size_t length) const {
    const std::string_view between = text().substr(offset(mark), at - offset(mark));
    Place place{source_, mark.line + 1, mark.column + 1, static_cast<int>(std::max<size_t>(length, 1))};
    const size_t newline = between.rfind('\n');
    place.line += static_cast<int>(std::count(between.begin(), between.end(), '\n'));
    place.column =
        newline == std::string_view::npos ? place.column + static_cast<int>(between.size()) : static_cast<int>(between.size() - newline);
    return place;
  }
  SyntaxFault too_deep(const YAML::Mark& mark) const {
    return {place(mark), fmt::format("more than {} levels of nesting", depth_limit), {}};
  }
  [[noreturn]] void refuse_tag(const YAML::Mark& mark) const {
    throw SyntaxFault{place(mark), "tags ('!...') are not used in configs", "remove the tag: the key decides the type; quotes make text"};
  }

  // Where the content starts that anchors may stand before.
  size_t content(const YAML::Mark& mark) const {
    size_t at = offset(mark);
    while (at < text().size() && text()[at] == '&')
      at = std::min(text().find_first_not_of(" \t\n", text().find_first_of(" \t\n", at)), text().size());
    if (at < text().size() && text()[at] == '!') refuse_tag(mark);
    return at;
  }

  // The library takes a tab for a space in front of a line's first word; columns then depend on the editor.
  void check_indentation(const YAML::Mark& mark) const {
    const std::string_view before = text().substr(offset(mark) - static_cast<size_t>(mark.column), static_cast<size_t>(mark.column));
    if (before.find_first_not_of(" \t") != std::string_view::npos) return;
    const size_t tab = before.find('\t');
    if (tab == std::string_view::npos) return;
    throw SyntaxFault{place_at(source_, offset(mark) - before.size() + tab), "a tab in the indentation", "indent with spaces"};
  }

  // For a key without a value the library's mark stands at the next key, on another line and no deeper.
  bool missing_value(const YAML::Mark& mark) const {
    if (frames_.empty() || !frames_.back().has_key) return false;
    const Place& key = frames_.back().key_place;
    return mark.line + 1 > key.line && mark.column + 1 <= key.column;
  }
  std::string null_word(size_t at) const {
    for (const std::string_view word : {"~", "null", "Null", "NULL"})
      if (text().substr(at, word.size()) == word) return std::string(word);
    return {};
  }

  // A last line that is a word alone reaches us as a key without value.
  void require_colon(const Frame& frame) const {
    const size_t next = text().find_first_not_of(" \t\n", frame.key_end);
    if (next == std::string_view::npos || text()[next] != ':')
      throw SyntaxFault{frame.key_place, "no ':' after this key", "write key: value, with a space after the ':'"};
  }

  void count(int nodes, const YAML::Mark& mark) {
    nodes_ += nodes;
    if (nodes_ > node_limit)
      throw SyntaxFault{place(mark), fmt::format("more than {} values, each use of an alias counted", node_limit), {}};
  }

  bool expects_key() const { return !frames_.empty() && frames_.back().node.kind == Node::Kind::map && !frames_.back().has_key; }

  void open(Node::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (tag != "?") refuse_tag(mark);
    if (expects_key())
      throw SyntaxFault{place(mark), "a key must be a word, found a bracket",
                        "close the bracket, or write key: value; text with brackets needs quotes"};
    if (static_cast<int>(frames_.size()) == depth_limit) throw too_deep(mark);
    count(1, mark);
    Frame frame;
    frame.node.kind = kind;
    frame.node.place = place(mark);
    frame.anchor = anchor;
    frames_.push_back(std::move(frame));
  }
  void close() {
    Node node = std::move(frames_.back().node);
    const YAML::anchor_t anchor = frames_.back().anchor;
    frames_.pop_back();
    finish(std::move(node), anchor);
  }
  void scalar(Node node, YAML::anchor_t anchor) {
    if (++nodes_ > node_limit)
      throw SyntaxFault{node.place, fmt::format("more than {} values, each use of an alias counted", node_limit), {}};
    if (!expects_key()) return finish(std::move(node), anchor);
    if (node.is_empty()) throw SyntaxFault{node.place, "a ':' without a key before it", {}};
    Frame& frame = frames_.back();
    frame.has_key = true;
    frame.quoted_key = !node.plain;
    frame.key = std::move(node.text);
    frame.key_place = node.place;
  }

  // A value is complete: it goes to the list or under the key that waits for it.
  void finish(Node node, YAML::anchor_t anchor) {
    if (anchor != 0) {
      nodes_ += size_of(node);  // the copy
      anchored_[anchor] = node;
    }
    if (frames_.empty()) {
      root = std::move(node);
      return;
    }
    Frame& frame = frames_.back();
    if (frame.node.kind == Node::Kind::list) {
      frame.node.items.push_back(std::move(node));
      return;
    }
    frame.has_key = false;
    if (frame.key == "<<" && !frame.quoted_key) {
      report_.error(frame.key_place, "merge keys ('<<') are not supported",
                    "repeat the keys, or put what is shared in a file named by 'base:'");
      return;
    }
    const auto [first, is_new] = frame.line_of_key.emplace(frame.key, frame.key_place.line);
    if (!is_new) {
      report_.error(frame.key_place, fmt::format("duplicate key '{}' (first at line {})", shortened(frame.key), first->second));
      return;
    }
    frame.node.entries.push_back({std::move(frame.key), frame.key_place, std::move(node)});
  }

  const SourcePtr& source_;
  Report& report_;
  Coverage coverage_;
  std::vector<Frame> frames_;
  std::map<YAML::anchor_t, Node> anchored_;
  int nodes_ = 0;
};

struct Wording {
  const char *theirs, *ours, *hint;
};
// Not constexpr: from yaml-cpp 0.8 on theirs are not.
const Wording wordings[] = {
    {YAML::ErrorMsg::TAB_IN_INDENTATION, "a tab in the indentation", "indent with spaces"},
    {YAML::ErrorMsg::MAP_VALUE, "a ':' that can't stand here",
     "text with ': ' in it needs quotes; else check the indentation, and for a missing ':' on the line above"},
    {YAML::ErrorMsg::MAP_KEY, "a key can't stand here", indent_hint},
    {YAML::ErrorMsg::END_OF_MAP, "this does not fit into the section above it", indent_hint},
    {YAML::ErrorMsg::END_OF_SEQ, "this does not fit into the list above it",
     "check the indentation: the '-' of one list stand in the same column"},
    {YAML::ErrorMsg::END_OF_MAP_FLOW, "a '{' is not closed, or a ',' is missing before this", ""},
    {YAML::ErrorMsg::END_OF_SEQ_FLOW, "a '[' is not closed, or a ',' is missing before this", ""},
    {YAML::ErrorMsg::FLOW_END, "a closing bracket that was never opened", ""},
    {YAML::ErrorMsg::BLOCK_ENTRY, "a list item ('- ') can't stand here", "start the list on a line of its own, or write [a, b]"},
    {YAML::ErrorMsg::UNKNOWN_TOKEN, "a value can't start with this character", "put the value in quotes"},
    {YAML::ErrorMsg::UNKNOWN_ANCHOR, "an alias ('*...') without its anchor ('&...')", "text that starts with '*' needs quotes"},
};

void report_syntax(const SourcePtr& source, const YAML::Exception& e, Report& report) {
  Place place{source, std::max(1, e.mark.line + 1), std::max(1, e.mark.column + 1), 1};
  const std::string_view line = line_of(*source, place.line);
  const size_t tab = line.substr(0, line.find_first_not_of(" \t")).find('\t');
  if (tab != std::string_view::npos) {
    place.column = static_cast<int>(tab) + 1;
    return report.error(place, "a tab in the indentation", "indent with spaces");
  }
  for (const Wording& w : wordings)
    if (e.msg.starts_with(w.theirs)) return report.error(place, w.ours, w.hint);  // from yaml-cpp 0.8 on a name may follow
  report.error(place, "not valid YAML: " + printable(e.msg));
}

}  // namespace

std::optional<Node> parse(const SourcePtr& source, Report& report) {
  if (!precheck(source, report)) return {};
  try {
    std::istringstream in(source->text);
    YAML::Parser parser(in);
    Builder builder(source, report);
    while (parser.HandleNextDocument(builder)) {
    }
    builder.end();
    Node root = std::move(builder.root);
    if (builder.documents == 0) root.place = {source};
    return root;
  } catch (const SyntaxFault& fault) {
    report.error(fault.place, fault.message, fault.hint);
  } catch (const YAML::Exception& e) {
    report_syntax(source, e, report);
  }
  return {};
}

}  // namespace tapeformer::config
