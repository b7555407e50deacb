// SPDX-License-Identifier: Apache-2.0
#include "framework/io/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>

#include "framework/core/error.h"
#include "framework/core/host.h"
#include "framework/core/log.h"
#include "framework/io/file_system.h"

namespace tapeformer::io {
namespace {

constexpr size_t buffered = size_t{64} << 10;

// CRC-32C (Castagnoli), reflected polynomial 0x82f63b78, as RFC 3720 uses it.
constexpr std::array<uint32_t, 256> crc_table = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
    table[i] = c;
  }
  return table;
}();

// The mask of the TFRecord format: a rotation and a constant, so that a CRC of bytes that hold a CRC is not degenerate.
uint32_t masked_crc(std::string_view bytes) {
  uint32_t c = 0xffffffffu;
  for (const char b : bytes) c = c >> 8 ^ crc_table[(c ^ static_cast<unsigned char>(b)) & 0xff];
  return std::rotr(~c, 15) + 0xa282ead8u;
}

template <class T>
void append_bytes(std::string& out, T value) {  // little-endian, as the machines we build for
  std::array<char, sizeof(T)> bytes;
  std::memcpy(bytes.data(), &value, sizeof(T));
  out.append(bytes.data(), bytes.size());
}

// Protobuf fields: a key (number << 3 | wire type), then the value.
void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}
void append_integer(std::string& out, int field, int64_t value) {
  append_varint(out, static_cast<uint64_t>(field) << 3);
  append_varint(out, static_cast<uint64_t>(value));
}
void append_double(std::string& out, int field, double value) {
  append_varint(out, static_cast<uint64_t>(field) << 3 | 1);
  append_bytes(out, value);
}
void append_float(std::string& out, int field, float value) {
  append_varint(out, static_cast<uint64_t>(field) << 3 | 5);
  append_bytes(out, value);
}
void append_text(std::string& out, int field, std::string_view bytes) {
  append_varint(out, static_cast<uint64_t>(field) << 3 | 2);
  append_varint(out, bytes.size());
  out.append(bytes);
}

// Event: wall_time 1, step 2, file_version 3, summary 5, session_log 7.
std::string event(double wall_time, int64_t step) {
  std::string payload;
  append_double(payload, 1, wall_time);
  append_integer(payload, 2, step);
  return payload;
}

void append_record(std::string& out, std::string_view payload) {
  std::string length;
  append_bytes(length, static_cast<uint64_t>(payload.size()));
  out += length;
  append_bytes(out, masked_crc(length));
  out += payload;
  append_bytes(out, masked_crc(payload));
}

}  // namespace

struct EventFile::State {
  std::filesystem::path directory;
  int64_t purge_step;
  std::string pending;
  std::optional<OpenFile> file;

  void open(double wall_time);
  void flush();
};

// A name that no file has yet: <n> counts on when the second and the process are the same.
void EventFile::State::open(double wall_time) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) fail(ExitCode::resource, "cannot make the directory {}: {}", printable(directory.string()), error.message());
  const std::string stem = fmt::format("events.out.tfevents.{:010}.{}.{}", static_cast<int64_t>(wall_time), host_name(), ::getpid());
  int n = 0;
  while (std::filesystem::exists(directory / fmt::format("{}.{}", stem, n))) ++n;
  file.emplace(file_system(), directory / fmt::format("{}.{}", stem, n), O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0666, ExitCode::resource);
  std::string version = event(wall_time, 0);
  append_text(version, 3, "brain.Event:2");
  append_record(pending, version);
  if (purge_step < 0) return;
  std::string start = event(wall_time, purge_step), log;
  append_integer(log, 1, 1);  // SessionLog.status = START
  append_text(start, 7, log);
  append_record(pending, start);
}

void EventFile::State::flush() {
  if (!file) return;
  // Emptied first: after a failed write nobody knows how much of it stands in the file, and a second try would repeat it.
  const std::string bytes = std::exchange(pending, {});
  file->write(bytes);
}

EventFile::EventFile(std::filesystem::path directory, int64_t purge_step)
    : state_(std::make_unique<State>(std::move(directory), purge_step, std::string(), std::nullopt)) {}

EventFile::~EventFile() {
  if (state_ == nullptr) return;
  try {
    state_->flush();
  } catch (const std::exception&) {  // a destructor has nobody to tell
  }
}

EventFile::EventFile(EventFile&&) noexcept = default;

EventFile& EventFile::operator=(EventFile&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

void EventFile::scalar(std::string_view tag, int64_t step, double value, double wall_time) {
  if (!state_->file) state_->open(wall_time);
  std::string number;  // Summary.Value: tag 1, simple_value 2
  append_text(number, 1, tag);
  append_float(number, 2, static_cast<float>(value));
  std::string summary;
  append_text(summary, 1, number);
  std::string payload = event(wall_time, step);
  append_text(payload, 5, summary);
  append_record(state_->pending, payload);
  if (state_->pending.size() > buffered) state_->flush();
}

void EventFile::flush() { state_->flush(); }

}  // namespace tapeformer::io
