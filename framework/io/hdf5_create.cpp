// SPDX-License-Identifier: Apache-2.0
// New files of HDF5 on disk, and files in memory for writing and reading.
#include <hdf5.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "framework/io/hdf5_calls.h"

namespace tapeformer::io {

// The bytes of a file that is written in memory. HDF5 grows them through the functions below and leaves them here when the file is closed:
// its own H5Fget_file_image clears a flag under the checksum of the v18 superblock, and what it gives cannot be opened again (1.10.8).
struct Hdf5Memory {
  char* bytes = nullptr;
  size_t size = 0;

  Hdf5Memory() = default;
  ~Hdf5Memory() { std::free(bytes); }
  Hdf5Memory(const Hdf5Memory&) = delete;
  Hdf5Memory& operator=(const Hdf5Memory&) = delete;
};

namespace {

constexpr size_t growth = size_t{4} << 20;
constexpr size_t end_of_file = 28;  // where a superblock of version 2 holds the length of the file, in 8 bytes

// New bytes are zero, so that gaps between objects repeat.
void* grow(void*, size_t size, H5FD_file_image_op_t, void* data) {
  auto& memory = *static_cast<Hdf5Memory*>(data);
  void* bytes = std::realloc(memory.bytes, size);
  if (bytes == nullptr) return nullptr;
  memory.bytes = static_cast<char*>(bytes);
  if (size > memory.size) std::memset(memory.bytes + memory.size, 0, size - memory.size);
  memory.size = size;
  return bytes;
}

herr_t keep(void*, H5FD_file_image_op_t, void*) { return 0; }
void* same(void* data) { return data; }
herr_t leave(void*) { return 0; }

// HDF5 takes two files in memory of one name for the same file, and refuses an image whose name is that of a file on disk.
std::string memory_name(const Hdf5Origin& origin) { return fmt::format("/proc/tapeformer/{}", static_cast<const void*>(&origin)); }

// The v18 format keeps large attributes and no superblock flags; without times the same contents give the same bytes.
Hdf5Handle create_file(const std::string& name, const Hdf5Origin& origin, const Hdf5Handle& access) {
  const Hdf5Handle properties(hdf5_checked(H5Pcreate(H5P_FILE_CREATE), origin, "make", "a file"), H5Pclose);
  hdf5_checked(H5Pset_obj_track_times(properties.id(), false), origin, "make", "a file");
  hdf5_checked(H5Pset_libver_bounds(access.id(), H5F_LIBVER_V18, H5F_LIBVER_V18), origin, "make", "a file");
  return Hdf5Handle(hdf5_checked(H5Fcreate(name.c_str(), H5F_ACC_TRUNC, properties.id(), access.id()), origin, "create", name), H5Fclose);
}

}  // namespace

Hdf5File Hdf5File::create(const std::filesystem::path& path) {
  const Hdf5Quiet quiet;
  auto origin = std::make_shared<const Hdf5Origin>(Hdf5Origin{path.string(), ExitCode::resource});
  return {origin, create_file(origin->name, *origin, hdf5_file_access(*origin))};
}

Hdf5File Hdf5File::create_image(std::string name) {
  const Hdf5Quiet quiet;
  auto origin = std::make_shared<const Hdf5Origin>(Hdf5Origin{std::move(name), ExitCode::resource});
  auto memory = std::make_shared<Hdf5Memory>();
  const Hdf5Handle access = hdf5_file_access(*origin);
  hdf5_checked(H5Pset_fapl_core(access.id(), growth, false), *origin, "create", "a file in memory");
  H5FD_file_image_callbacks_t callbacks{};
  callbacks.image_realloc = grow;
  callbacks.image_free = keep;
  callbacks.udata_copy = same;
  callbacks.udata_free = leave;
  callbacks.udata = memory.get();
  hdf5_checked(H5Pset_file_image_callbacks(access.id(), &callbacks), *origin, "create", "a file in memory");
  return {origin, create_file(memory_name(*origin), *origin, access), memory};
}

void Hdf5File::close() {
  const Hdf5Quiet quiet;
  hdf5_checked(H5Fflush(file_.id(), H5F_SCOPE_GLOBAL), *origin_, "flush", "the file");
  file_ = Hdf5Handle();
}

std::string Hdf5File::take_image() {
  require(memory_ != nullptr && file_.id() >= 0, "{} is no open file in memory", origin_->name);
  const Hdf5Quiet quiet;
  hdf5_checked(H5Fflush(file_.id(), H5F_SCOPE_GLOBAL), *origin_, "flush", "the file");
  file_ = Hdf5Handle();
  uint64_t size = 0;
  if (memory_->size >= end_of_file + sizeof(size)) std::memcpy(&size, memory_->bytes + end_of_file, sizeof(size));
  if (size == 0 || size > memory_->size)
    fail(origin_->code, "{}: HDF5 left {} bytes where {} were expected", origin_->name, memory_->size, size);
  return std::string(memory_->bytes, size);
}

Hdf5File Hdf5File::from_image(std::string bytes, std::string name, ExitCode code) {
  const Hdf5Quiet quiet;
  auto origin = std::make_shared<const Hdf5Origin>(Hdf5Origin{std::move(name), code});
  const Hdf5Handle access = hdf5_file_access(*origin);
  hdf5_checked(H5Pset_fapl_core(access.id(), growth, false), *origin, "open", "the file in memory");
  hdf5_checked(H5Pset_file_image(access.id(), bytes.data(), bytes.size()), *origin, "open", "the file in memory");
  std::string().swap(bytes);  // HDF5 has copied them
  const std::string place = memory_name(*origin);
  return {origin, Hdf5Handle(hdf5_checked(H5Fopen(place.c_str(), H5F_ACC_RDONLY, access.id()), *origin, "open", "the file"), H5Fclose)};
}

}  // namespace tapeformer::io
