// SPDX-License-Identifier: Apache-2.0
// TensorBoard event files: length, masked CRC-32C, protobuf payload, masked CRC-32C for each record; scalars only.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

namespace tapeformer::io {

class EventFile {
 public:
  // Makes events.out.tfevents.<seconds>.<host>.<pid>.<n> in `directory` (made if missing) at the first scalar; without one there is no
  // file. purge_step >= 0: the first record tells TensorBoard to drop what earlier files hold from that step on (a resumed run).
  explicit EventFile(std::filesystem::path directory, int64_t purge_step = -1);
  // Flushes; a failure there is silent, so call flush() where it matters.
  ~EventFile();
  EventFile(EventFile&&) noexcept;
  EventFile& operator=(EventFile&&) noexcept;

  // Appends one scalar; `wall_time` in seconds since 1970. Error(resource) when the disk refuses.
  void scalar(std::string_view tag, int64_t step, double value, double wall_time);
  void flush();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tapeformer::io
