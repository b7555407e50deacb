// SPDX-License-Identifier: Apache-2.0
// `tapeformer env`: what a bug report needs to know of this machine and build. Names no user, home or file.
#include <cstdlib>
#include <thread>

#include "framework/kernels/cpu/target.h"
#include "tools/command.h"
#include "tools/standard_output.h"
#include "tools/versions.h"

namespace tapeformer::tools {
namespace {

// What this program and its libraries read, and no other.
constexpr const char* read_variables[] = {
    "COLUMNS", "TERM", "SOURCE_DATE_EPOCH", "ONEDNN_MAX_CPU_ISA", "ONEDNN_VERBOSE", "HDF5_USE_FILE_LOCKING"};

}  // namespace

void add_env(const Verb& program) {
  program.verb("env", "Print versions, instruction sets and the environment variables that matter").runs([] {
    std::string text =
        fmt::format("{}cores: {}\nkernels: {}\n", version_text(), std::thread::hardware_concurrency(), kernels::cpu::target_name());
    for (const char* name : read_variables)
      if (const char* value = std::getenv(name)) text += fmt::format("{}={}\n", name, printable(value));
    return print_result(text);
  });
}

}  // namespace tapeformer::tools
