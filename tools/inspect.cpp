// SPDX-License-Identifier: Apache-2.0
// `tapeformer inspect`: what is in a checkpoint or a data file.
#include <array>
#include <fstream>

#include "framework/io/hdf5.h"
#include "framework/train/run_directory.h"
#include "tools/command.h"
#include "tools/experiment.h"
#include "tools/inspect_file.h"
#include "tools/standard_output.h"

namespace tapeformer::tools {

FileKind kind_of_file(const std::filesystem::path& file) {
  std::array<char, 8> start{};
  std::ifstream(file, std::ios::binary).read(start.data(), start.size());
  constexpr std::string_view hdf5 = "\x89HDF\r\n\x1a\n";
  datasets::Source source;
  source.path = file.string();
  if (std::string_view(start.data(), start.size()) == hdf5) {
    const auto type = io::Hdf5File::open(file).attribute("/", "encoding-type");
    const std::string* text = type ? std::get_if<std::string>(&*type) : nullptr;
    return text && *text == "tapeformer-checkpoint" ? FileKind::checkpoint : FileKind::hdf5;  // one whose first block was cut off
  }
  const datasets::Format format = datasets::DataSettings().format_of(source);
  if (format == datasets::Format::hdf5 && !std::string_view(start.data(), start.size()).starts_with("tapeform")) return FileKind::hdf5;
  return format == datasets::Format::by_extension || format == datasets::Format::hdf5 ? FileKind::checkpoint : FileKind::table;
}

namespace {

struct Options {
  std::string file;
  bool json = false;
};

ExitCode inspect(Command& command, const Options& options) {
  const std::filesystem::path file =
      train::is_run_directory(options.file) ? checkpoint_of(options.file, command.log) : std::filesystem::path(options.file);
  if (!std::filesystem::exists(file)) fail(ExitCode::data, "{}: no such file", printable(options.file));
  if (std::filesystem::is_directory(file))
    fail(ExitCode::data, "{}: is a directory, and no run (it has no checkpoints/)", printable(options.file));
  switch (kind_of_file(file)) {
    case FileKind::checkpoint:
      return print_result(inspect_checkpoint(file, options.json));
    case FileKind::hdf5:
      return print_result(inspect_hdf5(file, options.json));
    case FileKind::table:
      return print_result(inspect_table(file, options.json));
  }
  return ExitCode::internal;
}

}  // namespace

void add_inspect(const Verb& program, Command& command) {
  auto options = std::make_shared<Options>();
  const Verb sub = program.verb("inspect", "Print what is in a checkpoint or data file");
  sub.option("FILE", options->file, "A checkpoint, a RUN (its best checkpoint, or the last), an HDF5 file, or a csv, tsv or jsonl table")
      .required();
  sub.flag("--json", options->json, "As one JSON object");
  sub.runs([&command, options] { return inspect(command, *options); });
}

}  // namespace tapeformer::tools
