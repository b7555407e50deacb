// SPDX-License-Identifier: Apache-2.0
// Checkpoints: what is written reads back to the bit; every cut and flip is found; whichever system call fails, a whole file remains.
#include "framework/io/checkpoint_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "tests/framework/io/faulty_system.h"
#include "tests/framework/io/scratch.h"
#include "tests/support/catch.h"

using namespace tapeformer;
using namespace tapeformer::io;
using Catch::Matchers::ContainsSubstring;

namespace {

Checkpoint example(float first = 1.5f) {
  Checkpoint c;
  c.tensors["/model/encoder.layers.0.attention.query.weight"] =
      Tensor::of<float>(std::vector<float>{first, -0.0f, NAN, INFINITY, 1e-40f, 7}, {2, 3});
  c.tensors["/model/encoder.layers.0.norm.weight"] = Tensor::of<double>({0.1, 0.2});
  c.tensors["/buffers/norm.num_batches_tracked"] = Tensor::of<int64_t>(std::vector<int64_t>{-5}, Shape{});
  c.tensors["/buffers/features"] = Tensor::of<int32_t>(std::vector<int32_t>{1, -2, 3, 4}, {1, 2, 1, 2});
  c.tensors["/buffers/none"] = Tensor(Dtype::f32, {0, 3});
  c.tensors["/optimizer/exp_avg/encoder.layers.0.norm.weight"] = Tensor::of<uint8_t>({255, 0});
  c.tensors["/optimizer/step"] = Tensor::of<uint64_t>({~uint64_t{0}});
  c.tensors["/optimizer/seen"] = Tensor::of<uint32_t>({~uint32_t{0}});
  c.texts["/config/resolved_yaml"] = "model:\n  dim: 16 # \xc3\xa4\n";
  c.texts["/tokenizer_json"] = "";
  c.lists["/labels"] = {"cat", "", "\xf0\x9f\x98\x80"};
  c.lists["/empty"] = {};
  c.attributes["/"] = {{"step", int64_t{12}}, {"creator", std::string("tapeformer")}, {"seed", uint64_t{7}}};
  c.attributes["/model/encoder.layers.0.norm.weight"] = {{"trainable", true}, {"frozen", false}};
  c.attributes["/scheduler"] = {{"rate", 0.1}};
  return c;
}

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && (a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}

void check_same(const Checkpoint& a, const Checkpoint& b) {
  CHECK(a.texts == b.texts);
  CHECK(a.lists == b.lists);
  CHECK(a.attributes == b.attributes);
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (const auto& [name, tensor] : a.tensors) {
    INFO(name);
    CHECK(b.tensors.count(name) == 1);
    CHECK(same(tensor, b.tensors.at(name)));
  }
}

// The message when reading is refused as a checkpoint fault; anything else is a failure of the test.
std::string refusal(const std::filesystem::path& file) {
  try {
    read_checkpoint(file);
    return "read";
  } catch (const Error& e) {
    if (e.code() != ExitCode::checkpoint) FAIL(e.what());
    if (why_not_whole(file).empty()) FAIL("thought whole: " << e.what());
    return e.what();
  }
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

}  // namespace

TEST_CASE("a checkpoint reads back to the bit, and the same contents are the same bytes") {
  const Scratch scratch;
  const auto file = scratch.path() / "step-1.h5";
  write_checkpoint(file, example());
  CHECK(why_not_whole(file).empty());
  check_same(example(), read_checkpoint(file));
  const std::string first = scratch.read("step-1.h5");
  CHECK(first.starts_with("tapeformer-checkpoint 1\nlength " + std::to_string(first.size()) + "\nxxh3-128 "));
  CHECK(first[511] == '\n');
  CHECK(first.substr(512, 4) == "\x89HDF");
  write_checkpoint(scratch.path() / "again.h5", read_checkpoint(file));
  CHECK(scratch.read("again.h5") == first);
  write_checkpoint(file, example(2.5f));
  CHECK(read_checkpoint(file).tensors.begin()->second.defined());
  CHECK(scratch.read("step-1.h5") != first);
  CHECK(names_in(scratch.path()).size() == 2);
}

TEST_CASE("an empty checkpoint and one of many tensors") {
  const Scratch scratch;
  write_checkpoint(scratch.path() / "empty.h5", {});
  check_same({}, read_checkpoint(scratch.path() / "empty.h5"));
  Checkpoint many;
  for (int i = 0; i < 2000; ++i) many.tensors["/model/encoder.layers." + std::to_string(i) + ".weight"] = Tensor::of<int32_t>({i, -i});
  write_checkpoint(scratch.path() / "many.h5", many);
  check_same(many, read_checkpoint(scratch.path() / "many.h5"));
}

TEST_CASE("the block is no obstacle for HDF5 itself") {
  const Scratch scratch;
  write_checkpoint(scratch.path() / "c.h5", example());
  const Hdf5File file = Hdf5File::open(scratch.path() / "c.h5");
  CHECK(file.dataset("/labels").texts()[2] == "\xf0\x9f\x98\x80");
  CHECK(file.attribute("/", "step") == Attribute(int64_t{12}));
}

TEST_CASE("a cut anywhere is refused") {
  const Scratch scratch;
  write_checkpoint(scratch.path() / "c.h5", example());
  const std::string bytes = scratch.read("c.h5");
  for (size_t size = 0; size < bytes.size(); size += 64) {
    const std::string message = refusal(scratch.write("cut.h5", bytes.substr(0, size)));
    if (message.find("cut.h5") == message.npos || message == "read") FAIL("at " << size << ": " << message);
  }
  CHECK_THAT(refusal(scratch.write("cut.h5", bytes.substr(0, 700))),
             ContainsSubstring("700 bytes, " + std::to_string(bytes.size()) + " expected"));
  CHECK_THAT(refusal(scratch.write("long.h5", bytes + "x")), ContainsSubstring("expected"));
  CHECK_THAT(refusal(scratch.write("zeros.h5", bytes.substr(0, 1024) + std::string(bytes.size() - 1024, '\0'))),
             ContainsSubstring("XXH3-128"));
  CHECK_THAT(refusal(scratch.write("plain.h5", bytes.substr(512))), ContainsSubstring("no checkpoint"));
  CHECK_THAT(refusal(scratch.path() / "missing.h5"), ContainsSubstring("missing.h5"));
  CHECK_THAT(refusal(scratch.path()), ContainsSubstring("not a regular file"));
}

TEST_CASE("two thousand flipped bits are all found") {
  const Scratch scratch;
  write_checkpoint(scratch.path() / "c.h5", example());
  const std::string bytes = scratch.read("c.h5");
  std::mt19937 random(11);
  for (int i = 0; i < 2000; ++i) {
    std::string bad = bytes;
    // A quarter of them in the block.
    const size_t place = random() % (i % 4 == 0 ? 512 : bytes.size());
    bad[place] = static_cast<char>(bad[place] ^ 1 << random() % 8);
    if (refusal(scratch.write("flip.h5", bad)) == "read") FAIL("flip at " << place);
  }
  CHECK(bytes.size() > 1000);
}

TEST_CASE("a newer format is refused by its number") {
  const Scratch scratch;
  write_checkpoint(scratch.path() / "c.h5", example());
  std::string bytes = scratch.read("c.h5");
  bytes.replace(0, 23, "tapeformer-checkpoint 7");
  CHECK_THAT(refusal(scratch.write("newer.h5", bytes)), ContainsSubstring("format 7, newer than the 1"));
}

TEST_CASE("whichever call fails, the old checkpoint or the new one is whole and nothing else is left") {
  const Scratch scratch;
  const auto file = scratch.path() / "step-1.h5";
  write_checkpoint(file, example());
  const std::string old_bytes = scratch.read("step-1.h5");
  write_checkpoint(file, example(2.5f));
  const std::string new_bytes = scratch.read("step-1.h5");
  REQUIRE(old_bytes != new_bytes);
  for (const int error : {EIO, ENOSPC, EDQUOT, EACCES, EROFS}) {
    int n = 1;
    for (;; ++n) {
      scratch.write("step-1.h5", old_bytes);
      const FaultySystem system(n, error);
      bool thrown = false;
      try {
        write_checkpoint(file, example(2.5f), system);
      } catch (const Error& e) {
        thrown = true;
        CHECK(e.code() == ExitCode::resource);
        CHECK_THAT(e.what(), ContainsSubstring(system.failed()) && ContainsSubstring(scratch.path().string()) &&
                                 ContainsSubstring(std::strerror(error)));
      }
      INFO("call " << n << " " << system.failed());
      CHECK(names_in(scratch.path()) == std::vector<std::string>{"step-1.h5"});
      CHECK(scratch.read("step-1.h5") == (system.renamed() ? new_bytes : old_bytes));
      CHECK((thrown || system.renamed()));
      if (system.failed().empty()) break;
    }
    CHECK(n > 12);
  }
}

TEST_CASE("interrupted and short calls are tried again") {
  const Scratch scratch;
  const auto file = scratch.path() / "step-1.h5";
  write_checkpoint(file, example());
  const std::string bytes = scratch.read("step-1.h5");
  for (const int error : {EINTR, 0})
    for (int n = 1;; ++n) {
      const FaultySystem writing(n, error);
      std::filesystem::remove(file);
      try {
        write_checkpoint(file, example(), writing);
        CHECK(scratch.read("step-1.h5") == bytes);
      } catch (const Error&) {
        CHECK(writing.failed() == "rename");  // not a call that can be interrupted halfway: it is reported, not repeated
        CHECK(error == EINTR);
        continue;
      }
      if (writing.failed().empty()) break;
    }
  for (int n = 1;; ++n) {
    const FaultySystem reading(n, EINTR);
    check_same(example(), read_checkpoint(file, reading));
    if (reading.failed().empty()) break;
  }
}

TEST_CASE("a directory that is missing or cannot be written to") {
  const Scratch scratch;
  try {
    write_checkpoint(scratch.path() / "no" / "step-1.h5", example());
    FAIL("written");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::resource);
    CHECK_THAT(e.what(), ContainsSubstring("there is no directory " + (scratch.path() / "no").string()));
  }
}

TEST_CASE("a sparse file that declares a huge size is refused before memory is taken") {
  const Scratch scratch;
  const auto file = scratch.write("huge.h5", "tapeformer-checkpoint 1\nlength 4611686018427387904\nxxh3-128 00\n" + std::string(600, ' '));
  CHECK_THAT(refusal(file), ContainsSubstring("4611686018427387904 expected"));
}
