// SPDX-License-Identifier: Apache-2.0
#include "datasets/fingerprint.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/log.h"
#include "framework/io/content_hash.h"
#include "framework/io/file_system.h"

namespace tapeformer::datasets {
namespace {

constexpr uint64_t piece = uint64_t{1} << 20, whole_up_to = uint64_t{1} << 30, pieces = 64;

void add_file(io::ContentHash& hash, const std::string& path) {
  io::OpenFile file(io::file_system(), path, O_RDONLY, 0, ExitCode::data);
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error) fail(ExitCode::data, "cannot read {}: {}", printable(path), error.message());
  hash.add(fmt::format("file {};", size));
  std::vector<char> buffer(piece);
  const bool whole = size <= whole_up_to;
  for (uint64_t i = 0; whole || i < pieces; ++i) {
    if (!whole && lseek(file.descriptor(), static_cast<off_t>(i * (size - piece) / (pieces - 1)), SEEK_SET) < 0)
      fail(ExitCode::data, "cannot seek in {}", printable(path));
    const size_t bytes = file.read(buffer.data(), piece);
    hash.add({buffer.data(), bytes});
    if (whole && bytes < piece) return;
  }
}

// What changes the samples beside the files themselves.
std::string settings_text(const DataSettings& d) {
  const data::TokenizerSettings& t = d.tokenizer;
  std::string text = fmt::format("1;{};{};{};{};{};{};{};{};{}/{};{};", static_cast<int>(d.task), d.split.valid, d.split.test, d.split.seed,
                                 d.max_length, static_cast<int>(d.truncate), static_cast<int>(d.empty), static_cast<int>(d.missing),
                                 d.window.length, d.window.hop, d.classes);
  text += fmt::format("{};{};{};{};{};{};{};", d.ignored_tag, static_cast<int>(d.class_weights), d.standardize, data::name_of(t.kind),
                      t.lowercase, t.vocab_size, t.minimum_count);
  for (const auto& [label, weight] : d.label_weights) text += fmt::format("{}={};", label, weight);
  if (d.split.valid > 0 || d.split.test > 0) text += "cut 2;";  // the second rule by which parts are cut
  return text;
}

std::string source_text(const Source& s) {
  const std::string later = s.input.empty() && s.values.empty() ? "" : fmt::format("{};{};", s.input, s.values);
  return fmt::format("{};{};{};{};{};{};{};{};{};{};{};{}", static_cast<int>(s.encoding), s.text, s.tokens, s.tags, s.label,
                     fmt::join(s.target, ","), fmt::join(s.features, ","), s.sequence, s.step, s.id, s.weight, later);
}

}  // namespace

std::string fingerprint(const DataSettings& d, const OpenOptions& options) {
  io::ContentHash hash;
  hash.add(settings_text(d));
  for (const data::Part part : options.parts) {
    const Source& source = d.source(part);
    hash.add(fmt::format("{};", data::name_of(part)));
    if (!source.given()) continue;
    hash.add(source_text(source));
    add_file(hash, source.path);
  }
  return hash.text();
}

}  // namespace tapeformer::datasets
