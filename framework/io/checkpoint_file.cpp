// SPDX-License-Identifier: Apache-2.0
#include "framework/io/checkpoint_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <new>

#include "framework/core/log.h"
#include "framework/io/content_hash.h"
#include "framework/io/durable_file.h"

namespace tapeformer::io {
namespace {

constexpr size_t block_bytes = 512;  // the smallest user block of HDF5
constexpr std::string_view word = "tapeformer-checkpoint ";
constexpr int newest_format = 1;
constexpr uint64_t largest_file = uint64_t{64} << 30;
constexpr int deepest = 16;
constexpr const char* hash_attribute = "xxh64";

// The whole block as text, so that `head -3` shows it: any changed byte in it is found by comparing.
std::string block_text(uint64_t length, const ContentHash& hash) {
  std::string block = fmt::format("{}{}\nlength {}\nxxh3-128 {}\n", word, newest_format, length, hash.text());
  block.resize(block_bytes - 1, ' ');
  return block + "\n";
}

// Why the first bytes of a file of `length` bytes cannot be those of a whole checkpoint, or nothing.
std::string fault_of_block(std::string_view block, uint64_t length) {
  if (!block.starts_with(word)) return "is no checkpoint: it does not begin with 'tapeformer-checkpoint'";
  const std::string_view rest = block.substr(word.size());
  int format = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), format);
  if (error != std::errc() || end == rest.data() + rest.size() || *end != '\n') return "is damaged: its first line does not say its format";
  if (format > newest_format)
    return fmt::format("has format {}, newer than the {} this program reads; use a newer tapeformer", format, newest_format);
  if (block.size() < block_bytes) return fmt::format("is cut: {} bytes, fewer than its first block has", length);
  const std::string_view second = rest.substr(static_cast<size_t>(end - rest.data()) + 1);
  uint64_t declared = 0;
  constexpr std::string_view label = "length ";
  if (!second.starts_with(label) ||
      std::from_chars(second.data() + label.size(), second.data() + second.size(), declared).ec != std::errc())
    return "is damaged: its second line does not say its length";
  if (declared != length) return fmt::format("is cut or damaged: {} bytes, {} expected", length, declared);
  return {};
}

// From its beginning: reads the block, then hands the rest to `take(bytes)` in pieces and compares the hash. Answers the fault, empty for a
// whole file.
template <class Take>
std::string scan(OpenFile& file, const Take& take) {
  struct stat status {};
  if (::fstat(file.descriptor(), &status) != 0 || !S_ISREG(status.st_mode)) return "is not a regular file";
  const auto length = static_cast<uint64_t>(status.st_size);
  if (::lseek(file.descriptor(), 0, SEEK_SET) != 0) return "cannot be read from its beginning";
  std::string block(block_bytes, '\0');
  block.resize(file.read(block.data(), block.size()));
  if (std::string fault = fault_of_block(block, length); !fault.empty()) return fault;
  if (length > largest_file) return fmt::format("has {} bytes; at most {} are read", length, largest_file);
  ContentHash hash;
  std::string piece(size_t{1} << 20, '\0');
  for (uint64_t left = length - block_bytes; left > 0;) {
    const size_t got = file.read(piece.data(), std::min<uint64_t>(piece.size(), left));
    if (got == 0) return "was cut while it was read";
    take(std::string_view(piece.data(), got), length - block_bytes);
    hash.add({piece.data(), got});
    left -= got;
  }
  if (block != block_text(length, hash)) return "is damaged: its XXH3-128 is not the one it was written with";
  return {};
}

std::string child_path(const std::string& group, const std::string& name) { return group == "/" ? "/" + name : group + "/" + name; }

void read_attributes(const Hdf5File& file, const std::string& path, Checkpoint& checkpoint) {
  for (const std::string& name : file.attribute_names(path))
    if (auto value = file.attribute(path, name)) checkpoint.attributes[path].emplace(name, std::move(*value));
}

void read_dataset(const Hdf5Dataset& dataset, Checkpoint& checkpoint) {
  if (dataset.kind() != Hdf5Kind::text) checkpoint.tensors.emplace(dataset.path(), dataset.read(dataset.natural_dtype()));
  else if (dataset.sizes().empty()) checkpoint.texts.emplace(dataset.path(), dataset.text());
  else checkpoint.lists.emplace(dataset.path(), dataset.texts());
}

uint64_t hash_of(const Tensor& tensor) { return XXH64(tensor.raw(), tensor.bytes(), 0); }

// A tensor that carries its hash must have it; files of before there were hashes have none.
void check_tensor(const std::string& path, const std::string& name, Checkpoint& checkpoint) {
  const auto tensor = checkpoint.tensors.find(path);
  const auto attributes = checkpoint.attributes.find(path);
  if (tensor == checkpoint.tensors.end() || attributes == checkpoint.attributes.end()) return;
  const auto hash = attributes->second.find(hash_attribute);
  if (hash == attributes->second.end()) return;
  const auto* written = std::get_if<uint64_t>(&hash->second);
  if (written == nullptr || *written != hash_of(tensor->second))
    fail(ExitCode::checkpoint, "{}: the tensor {} is not the one that was written: its xxh64 differs", printable(name), printable(path));
  attributes->second.erase(hash);
  if (attributes->second.empty()) checkpoint.attributes.erase(attributes);
}

void read_group(const Hdf5File& file, const std::string& group, int depth, const std::string& name, Checkpoint& checkpoint) {
  if (depth > deepest) fail(ExitCode::checkpoint, "{}: groups nested deeper than {}", printable(name), deepest);
  read_attributes(file, group, checkpoint);
  for (const Hdf5File::Child& child : file.children(group)) {
    const std::string path = child_path(group, child.name);
    if (child.kind == Hdf5File::ChildKind::group) {
      read_group(file, path, depth + 1, name, checkpoint);
    } else if (child.kind == Hdf5File::ChildKind::dataset) {
      read_dataset(file.dataset(path), checkpoint);
      read_attributes(file, path, checkpoint);
      check_tensor(path, name, checkpoint);
    } else {
      fail(ExitCode::checkpoint, "{}: {} is neither a group nor a data set", printable(name), printable(path));
    }
  }
}

std::string image_of(const Checkpoint& checkpoint, const std::string& name) {
  Hdf5File file = Hdf5File::create_image(name);
  for (const auto& [path, tensor] : checkpoint.tensors) {
    file.write(path, tensor);
    file.write_attribute(path, hash_attribute, hash_of(tensor));
  }
  for (const auto& [path, text] : checkpoint.texts) file.write_text(path, text);
  for (const auto& [path, list] : checkpoint.lists) file.write_texts(path, list);
  for (const auto& [path, attributes] : checkpoint.attributes)
    for (const auto& [attribute, value] : attributes) file.write_attribute(path, attribute, value);
  return file.take_image();
}

}  // namespace

void write_checkpoint(const std::filesystem::path& file, const Checkpoint& checkpoint, const FileSystem& system) try {
  const std::string image = image_of(checkpoint, file.string());
  ContentHash hash;
  hash.add(image);
  const std::string block = block_text(block_bytes + image.size(), hash);
  replace_file(file, {block, image}, system);
} catch (const std::bad_alloc&) {
  fail(ExitCode::resource, "{}: no memory left to write the checkpoint", printable(file.string()));
}

Checkpoint read_checkpoint(const std::filesystem::path& file, const FileSystem& system) try {
  std::string image;
  {
    OpenFile input(system, file, O_RDONLY, 0, ExitCode::checkpoint);
    // What it declares takes memory only once it has proved to be whole.
    std::string fault = scan(input, [](std::string_view, uint64_t) {});
    if (fault.empty())
      fault = scan(input, [&](std::string_view piece, uint64_t total) {
        image.reserve(total);
        image.append(piece);
      });
    if (!fault.empty()) fail(ExitCode::checkpoint, "{} {}", printable(file.string()), fault);
  }
  const Hdf5File opened = Hdf5File::from_image(std::move(image), file.string(), ExitCode::checkpoint);
  Checkpoint checkpoint;
  read_group(opened, "/", 0, file.string(), checkpoint);
  return checkpoint;
} catch (const std::bad_alloc&) {
  fail(ExitCode::resource, "{}: no memory left to read the checkpoint", printable(file.string()));
}

std::string why_not_whole(const std::filesystem::path& file) try {
  OpenFile input(file_system(), file, O_RDONLY, 0, ExitCode::checkpoint);
  const std::string fault = scan(input, [](std::string_view, uint64_t) {});
  return fault.empty() ? fault : fmt::format("{} {}", printable(file.string()), fault);
} catch (const Error& e) {
  return e.what();
}

}  // namespace tapeformer::io
