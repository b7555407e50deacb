// SPDX-License-Identifier: Apache-2.0
// The devices of a program, and what a kernel needs to run on one: the device and its threads.
#pragma once
#include <cstdint>
#include <string_view>

namespace tapeformer {

class ThreadPool;

enum class Device : uint8_t { reference, cpu, cuda };

constexpr std::string_view name_of(Device d) {
  constexpr std::string_view names[] = {"reference", "cpu", "cuda"};
  return names[static_cast<int>(d)];
}

// Where a kernel runs. `threads` is never null for Device::cpu; the reference device ignores it.
struct Execution {
  Device device = Device::reference;
  ThreadPool* threads = nullptr;
};

}  // namespace tapeformer
