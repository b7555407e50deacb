// SPDX-License-Identifier: Apache-2.0
// Event files parsed back by code of the test's own: framing, checksums bit by bit, protobuf fields.
#include "framework/io/event_file.h"

#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "framework/core/error.h"
#include "tests/framework/io/scratch.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using tapeformer::io::EventFile;

namespace {

// CRC-32C by polynomial division of single bits.
uint32_t crc32c(const std::string& bytes) {
  uint32_t remainder = 0xffffffffu;
  for (const char byte : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const bool odd = (remainder ^ static_cast<unsigned char>(byte) >> bit) & 1;
      remainder >>= 1;
      if (odd) remainder ^= 0x82f63b78u;
    }
  return ~remainder;
}

uint32_t masked(const std::string& bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

template <class T>
T number(const std::string& bytes, size_t at) {
  T value;
  REQUIRE(at + sizeof(T) <= bytes.size());
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

std::vector<std::string> payloads(const std::string& bytes) {
  std::vector<std::string> all;
  for (size_t at = 0; at < bytes.size();) {
    const auto length = number<uint64_t>(bytes, at);
    CHECK(number<uint32_t>(bytes, at + 8) == masked(bytes.substr(at, 8)));
    REQUIRE(at + 16 + length <= bytes.size());
    all.push_back(bytes.substr(at + 12, length));
    CHECK(number<uint32_t>(bytes, at + 12 + length) == masked(all.back()));
    at += 16 + length;
  }
  return all;
}

// Field number -> raw value of one protobuf message; integers as 8 bytes.
std::map<int, std::string> fields(const std::string& message) {
  std::map<int, std::string> found;
  size_t at = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      REQUIRE(at < message.size());
      const auto byte = static_cast<unsigned char>(message[at++]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.size()) {
    const uint64_t key = varint();
    std::string value;
    if ((key & 7) == 0) {
      const uint64_t n = varint();
      value.assign(reinterpret_cast<const char*>(&n), 8);
    } else {
      const size_t size = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : varint();
      value = message.substr(at, size);
      at += size;
    }
    found[static_cast<int>(key >> 3)] = value;
  }
  return found;
}

std::vector<std::string> files_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  if (std::filesystem::exists(folder))
    for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

}  // namespace

TEST_CASE("the test's checksum gives the published value") { CHECK(crc32c("123456789") == 0xe3069283u); }

TEST_CASE("scalars come back with tag, step, value and time") {
  const Scratch scratch;
  {
    EventFile events(scratch.path() / "tensorboard" / "train");
    CHECK(files_in(scratch.path() / "tensorboard" / "train").empty());
    events.scalar("train/loss", 0, 2.5, 1700000000.25);
    events.scalar("train/loss", 300, NAN, 1700000001.5);
    EventFile moved = std::move(events);
    moved.scalar(std::string(200, 't'), int64_t{1} << 40, 0.1, 1700000002.0);
  }
  const auto names = files_in(scratch.path() / "tensorboard" / "train");
  REQUIRE(names.size() == 1);
  CHECK(names[0].starts_with("events.out.tfevents.1700000000."));
  const auto records = payloads(scratch.read("tensorboard/train/" + names[0]));
  REQUIRE(records.size() == 4);
  CHECK(fields(records[0])[3] == "brain.Event:2");
  CHECK(fields(records[0]).count(5) == 0);
  const auto value_of = [&](size_t i) { return fields(fields(fields(records[i])[5])[1]); };
  CHECK(number<double>(fields(records[1])[1], 0) == 1700000000.25);
  CHECK(number<int64_t>(fields(records[1])[2], 0) == 0);
  CHECK(value_of(1)[1] == "train/loss");
  CHECK(number<float>(value_of(1)[2], 0) == 2.5f);
  CHECK(number<int64_t>(fields(records[2])[2], 0) == 300);
  CHECK(std::isnan(number<float>(value_of(2)[2], 0)));
  CHECK(number<int64_t>(fields(records[3])[2], 0) == int64_t{1} << 40);
  CHECK(value_of(3)[1] == std::string(200, 't'));
  CHECK(number<float>(value_of(3)[2], 0) == 0.1f);
}

TEST_CASE("a resumed run says from which step on earlier files are void") {
  const Scratch scratch;
  for (const int64_t purge : {int64_t{0}, int64_t{500}}) {
    const auto folder = scratch.path() / std::to_string(purge);
    EventFile events(folder, purge);
    events.scalar("a", purge, 1, 1700000000);
    events.flush();
    const auto records = payloads(scratch.read(std::to_string(purge) + "/" + files_in(folder)[0]));
    REQUIRE(records.size() == 3);
    CHECK(number<int64_t>(fields(records[1])[2], 0) == purge);
    CHECK(number<int64_t>(fields(fields(records[1])[7])[1], 0) == 1);
    CHECK(fields(records[2]).count(5) == 1);
  }
}

TEST_CASE("two files of one process and second have different names") {
  const Scratch scratch;
  EventFile a(scratch.path()), b(scratch.path());
  a.scalar("x", 1, 1, 1700000000);
  b.scalar("x", 1, 2, 1700000000);
  CHECK(files_in(scratch.path()).size() == 2);
}

TEST_CASE("many scalars reach the file without a flush, and the rest with it") {
  const Scratch scratch;
  EventFile events(scratch.path());
  for (int step = 1; step <= 5000; ++step) events.scalar("valid/accuracy", step, step * 0.5, 1700000000);
  const std::string name = files_in(scratch.path())[0];
  CHECK(!scratch.read(name).empty());
  events.flush();
  const auto records = payloads(scratch.read(name));
  REQUIRE(records.size() == 5001);
  CHECK(number<int64_t>(fields(records[5000])[2], 0) == 5000);
}

TEST_CASE("a disk that refuses is a resource error") {
  const Scratch scratch;
  scratch.write("occupied", "a file");
  EventFile events(scratch.path() / "occupied");
  try {
    events.scalar("x", 1, 1, 1700000000);
    FAIL("written");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::resource);
  }
}
