// SPDX-License-Identifier: Apache-2.0
#include "framework/io/hdf5_calls.h"

#include <fmt/format.h>

#include <hdf5.h>

#include <cstring>
#include <utility>

#include "framework/core/log.h"

namespace tapeformer::io {
namespace {

static_assert(std::is_same_v<hid_t, int64_t>, "the identifiers of HDF5 before 1.10 have 32 bits");

// Keeps the innermost descriptions of the error stack, at most three, which is walked from its innermost entry. That a function of the
// library failed says nothing to who has the file.
herr_t collect(unsigned, const H5E_error2_t* entry, void* data) {
  auto& texts = *static_cast<std::vector<std::string>*>(data);
  std::string_view text = entry->desc == nullptr ? "" : entry->desc;
  constexpr std::string_view reason = "error message = '";  // of the system, among addresses and descriptors
  if (const size_t at = text.find(reason); at != std::string_view::npos) {
    text.remove_prefix(at + reason.size());
    text = text.substr(0, text.find('\''));
  }
  if (!text.empty() && text.find("()") == std::string_view::npos && texts.size() < 3) texts.emplace_back(text);
  return 0;
}

// The library closes what is open when the program ends, and says so in many words where a damaged file keeps it from doing it. Our files
// are closed by then. To be called before anything else of the library.
void leave_nothing_to_the_end() {
  static const herr_t once = H5dont_atexit();
  static_cast<void>(once);
}

herr_t refuse_link(const char*, const char*, const char* file, const char* object, unsigned*, hid_t, void* target) {
  *static_cast<std::string*>(target) = fmt::format("{} in the file {}", object, file);
  return -1;
}

// h5py's boolean: an enumeration of FALSE = 0 and TRUE = 1.
bool is_boolean(hid_t type) {
  if (H5Tget_nmembers(type) != 2) return false;
  for (unsigned i = 0; i < 2; ++i) {
    char* name = H5Tget_member_name(type, i);
    const bool same = name != nullptr && std::strcmp(name, i == 0 ? "FALSE" : "TRUE") == 0;
    H5free_memory(name);
    if (!same) return false;
  }
  return true;
}

const char* class_name(H5T_class_t type_class) {
  switch (type_class) {
    case H5T_TIME:
      return "time";
    case H5T_BITFIELD:
      return "bitfield";
    case H5T_OPAQUE:
      return "opaque";
    case H5T_COMPOUND:
      return "compound";
    case H5T_REFERENCE:
      return "reference";
    case H5T_VLEN:
      return "sequences of varying length";
    case H5T_ARRAY:
      return "array";
    default:
      return "an unknown type";
  }
}

}  // namespace

Hdf5Quiet::Hdf5Quiet() {
  leave_nothing_to_the_end();
  H5Eget_auto2(H5E_DEFAULT, &print_, &data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5Eclear2(H5E_DEFAULT);
}

Hdf5Quiet::~Hdf5Quiet() { H5Eset_auto2(H5E_DEFAULT, print_, data_); }

Hdf5Handle::~Hdf5Handle() {
  if (id_ < 0) return;
  const Hdf5Quiet quiet;
  close_(id_);
}

Hdf5Handle::Hdf5Handle(Hdf5Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}

Hdf5Handle& Hdf5Handle::operator=(Hdf5Handle&& other) noexcept {
  const Hdf5Handle closed(std::exchange(id_, std::exchange(other.id_, -1)), std::exchange(close_, other.close_));
  return *this;
}

void hdf5_failed(const Hdf5Origin& origin, std::string_view what, std::string_view path) {
  std::vector<std::string> texts;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, collect, &texts);
  fail(origin.code, "{}: cannot {} {}: {}", printable(origin.name), what, printable(path),
       printable(texts.empty() ? "HDF5 gives no reason" : fmt::format("{}", fmt::join(texts, "; "))));
}

Hdf5Handle hdf5_link_access(const Hdf5Origin& origin, std::string& target) {
  Hdf5Handle access(hdf5_checked(H5Pcreate(H5P_LINK_ACCESS), origin, "make", "access properties"), H5Pclose);
  hdf5_checked(H5Pset_elink_cb(access.id(), refuse_link, &target), origin, "set", "access properties");
  return access;
}

Hdf5Handle hdf5_file_access(const Hdf5Origin& origin) {
  hdf5_checked(H5PLset_loading_state(0), origin, "switch off", "the loading of plug-ins");
  return Hdf5Handle(hdf5_checked(H5Pcreate(H5P_FILE_ACCESS), origin, "make", "access properties"), H5Pclose);
}

int64_t hdf5_memory_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return H5T_NATIVE_FLOAT;
    case Dtype::f64:
      return H5T_NATIVE_DOUBLE;
    case Dtype::i32:
      return H5T_NATIVE_INT32;
    case Dtype::i64:
      return H5T_NATIVE_INT64;
    case Dtype::u8:
      return H5T_NATIVE_UINT8;
    case Dtype::u32:
      return H5T_NATIVE_UINT32;
    case Dtype::u64:
      return H5T_NATIVE_UINT64;
  }
  return -1;
}

Hdf5Kind hdf5_kind(int64_t type, const std::string& where, ExitCode code) {
  const H5T_class_t type_class = H5Tget_class(type);
  switch (type_class) {
    case H5T_INTEGER:
      return Hdf5Kind::integer;
    case H5T_FLOAT:
      return Hdf5Kind::floating;
    case H5T_STRING:
      return Hdf5Kind::text;
    case H5T_ENUM:
      return is_boolean(type) ? Hdf5Kind::boolean : Hdf5Kind::integer;
    default:
      fail(code, "{} holds {}; numbers or strings were expected", where, class_name(type_class));
  }
}

}  // namespace tapeformer::io
