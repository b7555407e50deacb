// SPDX-License-Identifier: Apache-2.0
// The `tapeformer` command: global options, the verbs, and the one place where a fault becomes a message and an exit code.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <new>
#include <sstream>

#include "framework/config/fault.h"
#include "framework/core/suggest.h"
#include "tools/command.h"
#include "tools/standard_output.h"
#include "tools/verb.h"
#include "tools/versions.h"

namespace tapeformer::tools {
namespace {

void add_all(const Verb& program, Command& command) {
  add_train(program, command);
  add_eval(program, command);
  add_predict(program, command);
  add_config(program, command);
  add_data(program, command);
  add_inspect(program, command);
  add_model(program, command);
  add_attn(program, command);
  add_bench(program, command);
  add_compare(program, command);
  add_env(program);
}

void add_global_options(CLI::App& app, Command& command) {
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.set_version_flag(
      "--version", [] { return version_text(); }, "Print the versions of the program and its libraries");
  const std::map<std::string, LogLevel> levels{{"trace", LogLevel::trace}, {"debug", LogLevel::debug}, {"info", LogLevel::info},
                                               {"warn", LogLevel::warn},   {"error", LogLevel::error}, {"off", LogLevel::off}};
  app.add_option_function<std::string>(
         "--log-level", [&command, levels](const std::string& l) { command.log.set_level(levels.at(l)); },
         "trace, debug, info, warn, error, off")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}));
  app.add_flag_function(
      "-q,--quiet",
      [&command](int64_t) {
        command.log.set_level(LogLevel::warn);
        command.progress = "none";
      },
      "Warnings and errors only");
  app.add_flag_function(
      "-v,--verbose", [&command](int64_t) { command.log.set_level(LogLevel::debug); }, "More messages");
  app.add_option("--progress", command.progress, "auto, bar, lines, none")->check(CLI::IsMember({"auto", "bar", "lines", "none"}));
  app.add_option("--threads", command.threads, "Threads of the cpu device; 0: as many as there are cores")->check(CLI::Range(0, 4096));
  app.add_option("--device", command.device, "auto, reference, cpu, cuda")->check(CLI::IsMember({"auto", "reference", "cpu", "cuda"}));
}

// A misspelled verb would be reported as a missing one.
void check_verb(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> verbs;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) verbs.push_back(sub->get_name());
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--log-level" || word == "--progress" || word == "--threads" || word == "--device") {
      ++i;
      continue;
    }
    if (word.starts_with("-")) continue;
    if (std::find(verbs.begin(), verbs.end(), word) != verbs.end()) return;
    const std::string near = nearest(word, verbs);
    fail(ExitCode::usage, "unknown command '{}'{}; `tapeformer --help` lists them", printable(word),
         near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
  }
}

int report(const Error& error) {
  std::fprintf(stderr, "error[%d]: %s\n", static_cast<int>(error.code()), printable_lines(error.what()).c_str());
  return static_cast<int>(error.code());
}

int report(const config::ReportError& error) {
  std::fprintf(stderr, "%s\n", printable_lines(error.what()).c_str());
  return static_cast<int>(error.code());
}

// A closed standard stream would give its number to the next file that is opened, and messages would be written into that.
void open_standard_streams() {
  for (int opened = 0; opened >= 0 && opened <= STDERR_FILENO;) {
    opened = ::open("/dev/null", O_RDWR);
    if (opened > STDERR_FILENO) ::close(opened);
  }
}

int run(int argc, char** argv) {
  Command command;
  command.arguments.assign(argv, argv + argc);
  CLI::App app("Train Transformer encoders with swappable attention from a YAML file, without Python.", "tapeformer");
  app.require_subcommand(1);
  app.fallthrough();
  add_global_options(app, command);
  add_all(Verb(app, command), command);
  try {
    check_verb(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    std::ostringstream text;  // help and version
    app.exit(e, text, text);
    return static_cast<int>(print_result(text.str()));
  } catch (const CLI::ParseError& e) {
    return report(Error(ExitCode::usage, fmt::format("{}; `tapeformer {}--help` says more", e.what(),
                                                     argc > 1 && argv[1][0] != '-' ? std::string(argv[1]) + " " : "")));
  }
  return static_cast<int>(command.action());
}

}  // namespace

std::vector<std::string> Command::flag_overrides() const {
  std::vector<std::string> out;
  if (!device.empty()) out.push_back("device.type=" + device);
  if (threads >= 0) out.push_back(fmt::format("device.threads={}", threads));
  return out;
}

Error as_error(const std::exception& e) {
  if (const auto* own = dynamic_cast<const Error*>(&e)) return *own;
  if (dynamic_cast<const std::bad_alloc*>(&e)) return {ExitCode::resource, "out of memory; use a smaller batch or shorter sequences"};
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&e))
    return {ExitCode::resource,
            fmt::format("{}{}: {}", printable(file->path1().string()),
                        file->path2().empty() ? "" : " and " + printable(file->path2().string()), file->code().message())};
  return {ExitCode::internal, fmt::format("unexpected: {}; please report it with the command and `tapeformer env`", e.what())};
}

}  // namespace tapeformer::tools

int main(int argc, char** argv) {
  using namespace tapeformer;
  tools::open_standard_streams();
  // A reader that goes away and a file that grows beyond `ulimit -f` are errors of the write, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return tools::run(argc, argv);
  } catch (const config::ReportError& e) {
    return tools::report(e);
  } catch (const std::exception& e) {
    return tools::report(tools::as_error(e));
  }
}
